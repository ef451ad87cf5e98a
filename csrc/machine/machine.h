/* What the processor says of itself (CPUID), and chains of dependent instructions whose length in core cycles is
   known. */

/* Fill eax, ebx, ecx, edx; 0, or -1 where there is no CPUID. */
int machine_cpuid(uint32_t leaf, uint32_t subleaf, uint32_t *eax_ebx_ecx_edx);

/* Seconds of a clock that nobody sets or slews. */
double machine_seconds(void);
/* Seconds that a chain of dependent additions, or multiplications, of 64-bit integers took.
   `operations` is rounded up to a multiple of 64. */
double machine_add_chain(uint64_t operations);
double machine_multiply_chain(uint64_t operations);
