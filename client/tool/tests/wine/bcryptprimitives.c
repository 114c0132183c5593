/* Replaces bcryptprimitives.dll, which Wine 8 lacks and Rust's standard library imports: its
 * numbers are not random, and only seed hash tables.
 */
int __stdcall ProcessPrng(unsigned char *bytes, unsigned long long length)
{
    for (unsigned long long at = 0; at < length; at++)
        bytes[at] = (unsigned char)(at * 37 + 11);
    return 1;
}
