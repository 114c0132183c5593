/* Five functions without calls, with data at fixed addresses. */
#include <stdio.h>
#include <string.h>

#define SIZE 12000

static int numbers[SIZE] __attribute__((aligned(64)));
static int others[SIZE] __attribute__((aligned(64)));
static double matrix[3][64][64] __attribute__((aligned(64)));
static unsigned char bytes[SIZE * 4] __attribute__((aligned(64)));

__attribute__((noinline)) int sort(int n)
{
    for (int i = 1; i < n; i++) {
        int value = numbers[i], j = i;
        for (; j > 0 && numbers[j - 1] > value; j--)
            numbers[j] = numbers[j - 1];
        numbers[j] = value;
    }
    return numbers[n / 2];
}

__attribute__((noinline)) int multiply(int n)
{
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
            double sum = 0;
            for (int k = 0; k < n; k++)
                sum += matrix[0][i][k] * matrix[1][k][j];
            matrix[2][i][j] = sum;
        }
    return (int)matrix[2][1][1];
}

__attribute__((noinline)) unsigned hash(int n)
{
    unsigned value = 2166136261u;
    for (int i = 0; i < n; i++)
        value = (value ^ bytes[i * 3]) * 16777619u;
    return value;
}

__attribute__((noinline)) int scatter(int n)
{
    unsigned at = 1;
    for (int i = 0; i < n; i++) {
        at = at * 1103515245u + 12345u;
        others[at / 65536 % SIZE] += numbers[i];
    }
    return others[7];
}

__attribute__((noinline)) int search(int n)
{
    int found = 0;
    for (int i = 0; i < n; i++) {
        int low = 0, high = SIZE;
        while (low < high) {
            int middle = (low + high) / 2;
            if (others[middle] < i * 7)
                low = middle + 1;
            else
                high = middle;
        }
        found += low;
    }
    return found;
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    for (int i = 0; i < SIZE; i++) {
        numbers[i] = (int)(i * 7919u % 12007u);
        others[i] = i * 2;
        bytes[i] = (unsigned char)i;
    }
    int result = 0;
    if (strcmp(what, "sort") == 0)
        result = sort(300);
    if (strcmp(what, "multiply") == 0)
        result = multiply(40);
    if (strcmp(what, "hash") == 0)
        result = (int)hash(12000);
    if (strcmp(what, "scatter") == 0)
        result = scatter(12000);
    if (strcmp(what, "search") == 0)
        result = search(1000);
    printf("%d\n", result);
    return 0;
}
