package labels_test

import (
	"bytes"
	"encoding/csv"
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/advise"
	"github.com/mongopatterns/mongopatterns/internal/tests/scale"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
)

var update = flag.Bool("update", false, "with -scale=whole, write the tables of the sets")

func TestMain(m *testing.M) {
	testkit.AtRoot()
	testkit.Main(m)
}

// TestAdvice runs advise on the services and tries each finding that can be tried. It prints what is wrong, missed or harmful, and
// fails if there is more of it than in the table of the set. A small run has half of one service of one set, a part four
// services of each.
func TestAdvice(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a server")
	}
	for i, s := range sets {
		if other := uint64(i) != scale.Seed()%uint64(len(sets)); scale.Of(other, false, false) {
			continue
		}
		t.Run(s.name, s.judge)
	}
}

func (s set) judge(t *testing.T) {
	services := slices.Sorted(maps.Keys(s.sources))
	first := int(scale.Seed() % uint64(len(services)))
	services = slices.Concat(services[first:], services[:first])[:scale.Of(1, 4, len(services))]
	before := map[string]answer{}
	if !*update {
		before = s.measured(t)
	}
	var was, is score
	var lines [][]string
	for _, service := range services {
		var own []labelled
		n := 0
		for _, c := range s.cases() {
			if c.service != service {
				continue
			}
			if n++; scale.Turn(n, 2) {
				own = append(own, c)
			}
		}
		report, lost := look(t, service, s.sources[service], own)
		for _, c := range own {
			got := c.answer(report, lost)
			is.add(c, got)
			was.add(c, before[c.name])
			lines = append(lines, c.line(got))
			explain(t, report, c, got)
		}
	}
	t.Logf("%v\n%v", services, &is)
	if *update && scale.Whole() {
		s.write(t, lines)
		return
	}
	if is.precision() < was.precision() || is.recall() < was.recall() || sum(is.harmful) > sum(was.harmful) {
		t.Errorf("worse than %s:\n%v", s.table, &was)
	}
}

// look fills a database with the collections of a service, sends its requests and returns what advise says, and the names
// of the findings whose trial did not keep what they promise.
func look(t *testing.T, service, source string, own []labelled) (report *advise.Report, lost []string) {
	t.Helper()
	db := mongotest.Database(t)
	admin := mongotest.Admin(t, db)
	type request struct {
		session *session
		do      func(s *session, i int)
		i       int
	}
	var todo []request
	var log *bytes.Buffer
	if source == "log" {
		log = new(bytes.Buffer)
	}
	for _, c := range own {
		fill(t, db, c)
		s := &session{gen: newGen(c.name + " requests"), ctx: t.Context(), db: db, log: log}
		for _, r := range c.traffic {
			for i := range r.n {
				todo = append(todo, request{s, r.do, i})
			}
		}
	}
	newGen(service).Shuffle(len(todo), func(i, j int) { todo[i], todo[j] = todo[j], todo[i] })
	send := func() {
		for n, r := range todo { // within a minute of the log
			r.session.now = minute(0).Add(time.Duration(n) * time.Minute / time.Duration(len(todo)))
			r.do(r.session, r.i)
		}
	}
	opts := &advise.Options{MaxTime: time.Minute, Budget: 20 * time.Minute}
	switch source {
	case "profiler":
		profile(t, admin, send)
	case "recorded":
		opts.Queries = advise.Commands(mongotest.Record(t, db, send))
	case "log":
		send()
		opts.Queries = testkit.Value[[]advise.Query](t)(advise.Log(log))
	}
	report = testkit.Value[*advise.Report](t)(advise.Look(t.Context(), admin, opts))
	for _, f := range report.Findings {
		trial, err := advise.Try(t.Context(), admin, admin.Client().Database(db.Name()+"_try"), report, f, nil)
		if errors.Is(err, mongopatterns.ErrInvalid) {
			continue // cannot be tried
		}
		testkit.OK(t, err)
		if !trial.Kept() {
			lost = append(lost, f.Name())
		}
	}
	return report, lost
}

func newGen(name string) gen {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name))
	return gen{rand.New(rand.NewPCG(20261129, h.Sum64()))}
}

func fill(t *testing.T, db *mongo.Database, c labelled) {
	t.Helper()
	for _, coll := range c.colls {
		g := newGen(coll.name)
		docs := make([]bson.D, coll.n)
		for i := range docs {
			docs[i] = coll.doc(g, i)
		}
		for _, index := range coll.indexes {
			keys := bson.D{}
			for field := range strings.SplitSeq(index, ",") {
				keys = append(keys, bson.E{Key: field, Value: 1})
			}
			_, err := db.Collection(coll.name).Indexes().CreateOne(t.Context(), mongo.IndexModel{Keys: keys})
			testkit.OK(t, err)
		}
		testkit.InsertAll(t, db.Collection(coll.name), docs) // after the indexes, which the server would build by a scan
	}
}

// profile runs fn with the profiler on, which keeps all commands.
func profile(t *testing.T, admin *mongo.Database, fn func()) {
	t.Helper()
	run := func(cmd bson.D) { testkit.OK(t, admin.RunCommand(t.Context(), cmd).Err()) }
	run(d("create", "system.profile", "capped", true, "size", 64<<20))
	run(d("profile", 2))
	fn()
	run(d("profile", 0))
}

// answer is what is advised for the collections of a case, by patterns.
type answer struct{ advised, harmful []string }

func (c labelled) answer(report *advise.Report, lost []string) (out answer) {
	for _, f := range report.Findings {
		if !c.has(f.Collection) {
			continue
		}
		out.advised = append(out.advised, f.Pattern)
		if slices.Contains(patterns(c.harm), f.Pattern) || slices.Contains(lost, f.Name()) {
			out.harmful = append(out.harmful, f.Pattern)
		}
	}
	slices.Sort(out.advised)
	slices.Sort(out.harmful)
	return answer{slices.Compact(out.advised), slices.Compact(out.harmful)}
}

func (c labelled) has(name string) bool {
	return slices.ContainsFunc(c.colls, func(coll coll) bool { return coll.name == name })
}

// verdict says which of the advice is right and which is wrong.
func (c labelled) verdict(advised []string) (right, wrong []string) {
	for _, p := range advised {
		switch {
		case slices.Contains(patterns(c.pays), p):
			right = append(right, p)
		case !slices.Contains(patterns(c.fine), p):
			wrong = append(wrong, p)
		}
	}
	return right, wrong
}

// line is that of a case in the table of its set. Advice in the last column is neither right nor wrong.
func (c labelled) line(got answer) []string {
	right, wrong := c.verdict(got.advised)
	fine := slices.DeleteFunc(slices.Clone(got.advised), func(p string) bool { return slices.Contains(right, p) || slices.Contains(wrong, p) })
	return []string{c.service, c.name, c.pays, strings.Join(got.advised, "|"), strings.Join(got.harmful, "|"), strings.Join(fine, "|")}
}

// explain logs what is wrong or missed, with the reasons of the report.
func explain(t *testing.T, report *advise.Report, c labelled, got answer) {
	t.Helper()
	right, wrong := c.verdict(got.advised)
	missed := c.pays != "" && len(right) == 0
	if len(wrong) == 0 && len(got.harmful) == 0 && !missed {
		return
	}
	t.Logf("%s/%s: pays %q, advised %q, harmful %q; the label says: %s", c.service, c.name, c.pays, got.advised, got.harmful, c.why)
	for _, f := range report.Findings {
		if c.has(f.Collection) {
			t.Logf("    %s: %s", f.Name(), f.Summary)
		}
	}
	if !missed {
		return
	}
	for _, n := range report.NotAdvised {
		if c.has(n.Collection) {
			t.Logf("    not advised: %v", n)
		}
	}
	for _, n := range report.Unknown {
		if c.has(n.Collection) {
			t.Logf("    unknown: %v", n)
		}
	}
	for _, s := range report.Shapes {
		if c.has(s.Collection) {
			t.Logf("    query: %v", s)
		}
	}
}

// score counts labels that pay and advice, by pattern. The first pattern of a label counts for it.
type score struct{ pays, found, right, wrong, harmful map[string]int }

func (s *score) add(c labelled, got answer) {
	if s.pays == nil {
		*s = score{map[string]int{}, map[string]int{}, map[string]int{}, map[string]int{}, map[string]int{}}
	}
	right, wrong := c.verdict(got.advised)
	for _, p := range right {
		s.right[p]++
	}
	for _, p := range wrong {
		s.wrong[p]++
	}
	for _, p := range got.harmful {
		s.harmful[p]++
	}
	if c.pays != "" {
		s.pays[patterns(c.pays)[0]]++
		if len(right) > 0 {
			s.found[patterns(c.pays)[0]]++
		}
	}
}

func sum(counts map[string]int) (n int) {
	for _, c := range counts {
		n += c
	}
	return n
}

func (s *score) precision() float64 { return share(sum(s.right), sum(s.right)+sum(s.wrong)) }

func (s *score) recall() float64 { return share(sum(s.found), sum(s.pays)) }

func share(n, of int) float64 {
	if of == 0 {
		return 1
	}
	return float64(n) / float64(of)
}

// wilson is a share with its interval of 95 %.
func wilson(n, of int) string {
	if of == 0 {
		return "-"
	}
	const z = 1.96
	p, m := share(n, of), float64(of)
	middle, half := p+z*z/(2*m), z*math.Sqrt(p*(1-p)/m+z*z/(4*m*m))
	return fmt.Sprintf("%d of %d, %.2f (%.2f to %.2f)", n, of, p, (middle-half)/(1+z*z/m), (middle+half)/(1+z*z/m))
}

func (s *score) String() string {
	var b strings.Builder
	line := func(name string, right, wrong, harmful, found, pays int) {
		fmt.Fprintf(&b, "%-10s precision %-32s recall %-32s harmful %d\n", name, wilson(right, right+wrong), wilson(found, pays), harmful)
	}
	names := map[string]int{}
	for _, m := range []map[string]int{s.pays, s.right, s.wrong} {
		maps.Copy(names, m)
	}
	for _, p := range slices.Sorted(maps.Keys(names)) {
		line(p, s.right[p], s.wrong[p], s.harmful[p], s.found[p], s.pays[p])
	}
	line("all", sum(s.right), sum(s.wrong), sum(s.harmful), sum(s.found), sum(s.pays))
	return b.String()
}

// The tables say how the labels judge the advice, and docs/advise.md counts them.
func TestTables(t *testing.T) {
	page := string(testkit.Value[[]byte](t)(os.ReadFile("docs/advise.md")))
	for _, s := range sets {
		before := s.measured(t)
		var lines [][]string
		var today score
		for _, c := range s.cases() {
			today.add(c, before[c.name])
			lines = append(lines, c.line(before[c.name]))
		}
		if stored := string(testkit.Value[[]byte](t)(os.ReadFile(s.table))); stored != s.text(t, lines) {
			t.Errorf("%s does not say what the labels say", s.table)
		}
		right, wrong := sum(today.right), sum(today.wrong)
		counted := fmt.Sprintf("%d of %d, %d of %d |\n", right, right+wrong, sum(today.found), sum(today.pays))
		_, line, _ := strings.Cut(page, "| ["+s.name+"](")
		if line, _, _ = strings.Cut(line, "\n"); !strings.HasSuffix(line+"\n", "| "+counted) {
			t.Errorf("docs/advise.md says of the %s labels %q, and the table %q", s.name, line, counted)
		}
	}
}

// measured returns what was advised for each case when the table was written.
func (s set) measured(t *testing.T) map[string]answer {
	t.Helper()
	data := testkit.Value[[]byte](t)(os.ReadFile(s.table))
	lines := testkit.Value[[][]string](t)(csv.NewReader(bytes.NewReader(data)).ReadAll())
	out := map[string]answer{}
	for _, line := range lines[1:] {
		out[line[1]] = answer{patterns(line[3]), patterns(line[4])}
	}
	return out
}

func (s set) write(t *testing.T, lines [][]string) {
	t.Helper()
	testkit.OK(t, os.WriteFile(s.table, []byte(s.text(t, lines)), 0o644))
}

// text is the table of a set.
func (s set) text(t *testing.T, lines [][]string) string {
	t.Helper()
	slices.SortFunc(lines, func(a, b []string) int { return strings.Compare(a[0]+" "+a[1], b[0]+" "+b[1]) })
	var b bytes.Buffer
	testkit.OK(t, csv.NewWriter(&b).WriteAll(slices.Concat([][]string{{"service", "collection", "pays", "advised", "harmful", "fine"}}, lines)))
	return b.String()
}
