int placeholder_kernel(int x){return x;}
