int native_abi(void);
