// pprofref is the reference of the ingest benchmark: how many (stack, value) rows a second google/pprof parses and
// merges on one thread. It makes HOSTS gzip'ed profiles of ROWS rows each (28 frames mean, shared call tree), then times
// parse and merge of them.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand"
	"os"
	"runtime"
	"time"

	"github.com/google/pprof/profile"
)

const (
	hosts     = 40
	rows      = 500
	functions = 1500
	universe  = 20000
	maxDepth  = 56
)

func stacks(random *rand.Rand) [][]int {
	all := make([][]int, universe)
	for i := range all {
		depth := 1 + random.Intn(maxDepth)
		var stack []int
		if i > 64 {
			base := all[random.Intn(i)]
			shared := min(len(base), depth)
			stack = append(stack, base[:random.Intn(shared+1)]...)
		}
		for len(stack) < depth {
			stack = append(stack, random.Intn(functions)*512+random.Intn(512))
		}
		all[i] = stack
	}
	return all
}

func encode(random *rand.Rand, all [][]int) []byte {
	p := &profile.Profile{
		SampleType: []*profile.ValueType{{Type: "samples", Unit: "count"}, {Type: "cpu", Unit: "nanoseconds"}},
		PeriodType: &profile.ValueType{Type: "cpu", Unit: "nanoseconds"}, Period: 10101010,
	}
	mapping := &profile.Mapping{ID: 1, Start: 0, Limit: 1 << 40, File: "service"}
	p.Mapping = []*profile.Mapping{mapping}
	locations := map[int]*profile.Location{}
	names := map[int]*profile.Function{}
	zipf := rand.NewZipf(random, 1.1, 10, universe-1)
	for r := 0; r < rows; r++ {
		sample := &profile.Sample{Value: []int64{1, 10101010}}
		stack := all[zipf.Uint64()]
		for i := len(stack) - 1; i >= 0; i-- {
			pc := stack[i]
			f := pc / 512
			if names[f] == nil {
				names[f] = &profile.Function{ID: uint64(len(p.Function) + 1), Name: fmt.Sprintf("service::function_%04d", f)}
				p.Function = append(p.Function, names[f])
			}
			if locations[pc] == nil {
				locations[pc] = &profile.Location{ID: uint64(len(p.Location) + 1), Mapping: mapping,
					Address: uint64(0x1000 + f*1024 + pc%512), Line: []profile.Line{{Function: names[f]}}}
				p.Location = append(p.Location, locations[pc])
			}
			sample.Location = append(sample.Location, locations[pc])
		}
		p.Sample = append(p.Sample, sample)
	}
	var out bytes.Buffer
	if err := p.Write(&out); err != nil {
		panic(err)
	}
	return out.Bytes()
}

func min(a, b int) int {
	if a < b {
		return a
	}
	return b
}

func main() {
	runtime.GOMAXPROCS(1)
	random := rand.New(rand.NewSource(1))
	all := stacks(random)
	encoded := make([][]byte, hosts)
	size := 0
	for i := range encoded {
		encoded[i] = encode(random, all)
		size += len(encoded[i])
	}
	rounds := 0
	start := time.Now()
	for time.Since(start) < 3*time.Second {
		parsed := make([]*profile.Profile, hosts)
		for i, data := range encoded {
			p, err := profile.ParseData(data)
			if err != nil {
				panic(err)
			}
			parsed[i] = p
		}
		if _, err := profile.Merge(parsed); err != nil {
			panic(err)
		}
		rounds++
	}
	seconds := time.Since(start).Seconds()
	json.NewEncoder(os.Stdout).Encode(map[string]float64{
		"rows_per_second": float64(rounds*hosts*rows) / seconds,
		"bytes_per_row":   float64(size) / float64(hosts*rows),
	})
}
