// Functions that call others: templates, virtual functions, closures, and those of libstdc++. None throws:
// how long the search for a frame takes depends on how many modules are loaded, and Valgrind loads its own.
#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#define ALONE __attribute__((noinline))

static unsigned state = 1;

static ALONE unsigned next()
{
    state = state * 1664525u + 1013904223u;
    return state >> 8;
}

extern "C" ALONE unsigned ordered()
{
    std::vector<unsigned> values(100);
    for (auto &value : values)
        value = next();
    std::sort(values.begin(), values.end());
    return values[50];
}

extern "C" ALONE unsigned counted()
{
    std::map<std::string, unsigned> counts;
    for (int i = 0; i < 100; i++)
        counts["key" + std::to_string(next() % 30)]++;
    return counts.size();
}

struct Shape {
    virtual ~Shape() = default;
    virtual unsigned area() const = 0;
};

struct Square : Shape {
    unsigned side = 3;
    ALONE unsigned area() const override { return side * side; }
};

struct Strip : Shape {
    unsigned length = 5;
    ALONE unsigned area() const override { return length; }
};

extern "C" ALONE unsigned shapes()
{
    std::vector<std::unique_ptr<Shape>> all;
    for (int i = 0; i < 50; i++)
        if (next() % 2)
            all.push_back(std::make_unique<Square>());
        else
            all.push_back(std::make_unique<Strip>());
    unsigned sum = 0;
    for (auto &shape : all)
        sum += shape->area();
    return sum;
}

extern "C" ALONE unsigned hashed()
{
    std::unordered_map<unsigned, std::function<unsigned(unsigned)>> all;
    for (unsigned i = 0; i < 30; i++)
        all[next()] = [i](unsigned value) { return value + i; };
    unsigned sum = 0;
    for (auto &one : all)
        sum += one.second(one.first);
    return sum;
}

int main(int count, char **words)
{
    const std::string what = count > 1 ? words[1] : "";
    unsigned result = 0;
    if (what == "ordered")
        result = ordered();
    if (what == "counted")
        result = counted();
    if (what == "shapes")
        result = shapes();
    if (what == "hashed")
        result = hashed();
    return result == 1;
}
