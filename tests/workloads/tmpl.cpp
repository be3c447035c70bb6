// tmpl SECONDS: burns in a method of a class template, so that its name needs the C++ demangler.
// Truth: {"function": "shapes::Mixer<int, shapes::Tag<3> >::blend(unsigned long)", "cpu_ns": N}; a spelling without the
// space in "> >" is as good.
#include "workload.h"

namespace shapes
{
template <int N> struct Tag {
    static constexpr int value = N;
};
template <typename T, typename K> struct Mixer {
    T state = K::value;
    NOINLINE unsigned long blend(unsigned long x)
    {
        KEEP_FRAME();
        for (int i = 0; i < 400000; i++)
            x = workload_step(x + static_cast<unsigned long>(state));
        return x;
    }
};
} // namespace shapes

int main(int argc, char **argv)
{
    if (argc < 2)
        return 2;
    shapes::Mixer<int, shapes::Tag<3>> mixer;
    unsigned long x = 1;
    workload_start(argv[1]);
    uint64_t start = thread_cpu_ns();
    while (workload_runs())
        x = mixer.blend(x);
    printf("{\"function\": \"shapes::Mixer<int, shapes::Tag<3> >::blend(unsigned long)\", \"cpu_ns\": %ju, \"x\": %u}\n",
           static_cast<uintmax_t>(thread_cpu_ns() - start), static_cast<unsigned>(x & 1));
    return 0;
}
