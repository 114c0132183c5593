// Compiled twice, into one program that has two functions of one name.

static __attribute__((noinline)) int twin(int turns)
{
    for (volatile int turn = 0; turn < turns; turn++) {
    }
    return turns;
}

int NAME(int turns)
{
    return twin(turns);
}

#ifdef MAIN
int first(int turns);

int main(void)
{
    return first(1) + second(1);
}
#endif
