/* Functions that call others, in this file and in libc. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ALONE __attribute__((noinline))

static unsigned state = 1;

static ALONE unsigned next(void)
{
    state = state * 1664525u + 1013904223u;
    return state >> 8;
}

static ALONE int compare(const void *one, const void *other)
{
    int a = *(const int *)one, b = *(const int *)other;
    return (a > b) - (a < b);
}

ALONE unsigned sorted(void)
{
    int values[300];
    for (int i = 0; i < 300; i++)
        values[i] = (int)next();
    qsort(values, 300, sizeof *values, compare);
    return (unsigned)values[150];
}

static ALONE unsigned fibonacci(unsigned n)
{
    return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2);
}

ALONE unsigned recursive(void)
{
    return fibonacci(15);
}

struct node {
    struct node *next;
    unsigned value;
};

ALONE unsigned list(void)
{
    struct node *first = NULL;
    for (int i = 0; i < 100; i++) {
        struct node *node = malloc(sizeof *node);
        node->next = first;
        node->value = next();
        first = node;
    }
    unsigned sum = 0;
    while (first) {
        struct node *node = first;
        first = node->next;
        sum += node->value;
        free(node);
    }
    return sum;
}

ALONE unsigned text(void)
{
    char line[64];
    unsigned sum = 0;
    for (int i = 0; i < 50; i++) {
        snprintf(line, sizeof line, "%d,%x,%s", i, next(), "text");
        sum += (unsigned)strtol(line, NULL, 10) + (unsigned)strlen(line);
    }
    return sum;
}

int main(int count, char **words)
{
    const char *what = count > 1 ? words[1] : "";
    unsigned result = 0;
    if (!strcmp(what, "sorted") || !strcmp(what, "qsort"))
        result = sorted();
    if (!strcmp(what, "recursive"))
        result = recursive();
    if (!strcmp(what, "list"))
        result = list();
    if (!strcmp(what, "text"))
        result = text();
    return result == 1;
}
