package sweep

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/tests/registry"
	"github.com/mongopatterns/mongopatterns/internal/tests/scale"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
)

const (
	shardsPage = "docs/compatibility.md"
	// shardsFile is written by go test ./internal/tests/sweep -run TestShardsTable -scale=whole -update -timeout 1h.
	shardsFile = "docs/shards.csv"
)

// seen is what a call did on two shards that have half of the documents each.
type seen struct {
	// everywhere are the commands that both shards ran: the keys of those with a filter lie on both,
	// or are not named.
	everywhere string
	commits    string
	// inside is "yes", or why the call is refused in a transaction.
	inside string
}

// errEnough ends a transaction that is not to be committed.
var errEnough = errors.New("enough")

// look makes the call of a row, and makes it again in a transaction that is aborted.
func (r placed) look(t *testing.T) seen {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	db, c := r.sharded(t)
	asked, err := r.cluster.Asked(ctx, db, func() error { return testkit.ErrorOf(c.Do(ctx)) })
	if err != nil {
		t.Fatal(err)
	}
	out := seen{everywhere: everywhereOf(asked), commits: commitsOf(asked), inside: "yes"}
	testkit.Empty(t, db)
	c = call{r.Start(&registry.Scene{T: t, DB: db})}
	ctx, cancel = context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	err = mongopatterns.Transact(ctx, db.Client(), func(ctx context.Context) error {
		if _, err := c.Do(ctx); err != nil {
			return err
		}
		return errEnough
	})
	if !errors.Is(err, errEnough) {
		out.inside = refusalOf(err)
		t.Log(err)
	}
	return out
}

// filters are the parts of commands that say to which shards they go.
var filters = []string{"filter", "q", "query", "pipeline", "deletes", "updates"}

func everywhereOf(asked mongotest.Asked) string {
	on := map[string]int{} // a bit for each shard
	names := map[string]string{}
	for i, commands := range asked.Shards {
		for _, c := range commands {
			for _, f := range filters {
				v := c.Body.Lookup(f)
				if v.Type != 0 || c.Name == "find" && f == "filter" { // a router leaves out an empty one
					key := c.Name + " " + c.Collection + " " + v.String()
					on[key] |= 1 << i
					names[key] = c.Name + " " + c.Collection
				}
			}
		}
	}
	both := map[string]bool{}
	for key, bits := range on {
		if bits == 3 {
			both[names[key]] = true
		}
	}
	if len(both) == 0 {
		return "–"
	}
	return strings.Join(slices.Sorted(maps.Keys(both)), ", ")
}

func commitsOf(asked mongotest.Asked) string {
	switch {
	case asked.Commits["twoPhaseCommit"] > 0:
		return "two"
	case asked.Commits["singleShard"]+asked.Commits["singleWriteShard"] > 0:
		return "one"
	}
	return "–"
}

// refusalOf returns an error in a few words.
func refusalOf(err error) string {
	var server mongo.ServerError
	text := fmt.Sprint(err)
	switch {
	case strings.Contains(text, "$graphLookup"):
		return "no: $graphLookup"
	case strings.Contains(text, "$lookup"):
		return "no: $lookup"
	case strings.Contains(text, "$unionWith"):
		return "no: $unionWith"
	case errors.As(err, &server) && server.HasErrorCode(263):
		return "no: " + text[strings.LastIndex(text, ") ")+2:]
	case errors.Is(err, mongopatterns.ErrInvalid):
		return "no: the call refuses it"
	}
	return "no: " + text
}

// shardsTable returns the lines of the file: one for the calls of a package that did the same.
func shardsTable(all map[string]seen) [][]string {
	type line struct {
		pkg string
		seen
	}
	calls := map[line]map[string][]string{}
	for name, s := range all {
		pkg, call, _ := strings.Cut(name, ".")
		call, kind, _ := strings.Cut(call, "/")
		l := line{pkg, s}
		if calls[l] == nil {
			calls[l] = map[string][]string{}
		}
		calls[l][call] = append(calls[l][call], kind)
	}
	var lines [][]string
	for l, names := range calls {
		var texts []string
		for _, name := range slices.Sorted(maps.Keys(names)) {
			kinds := slices.Sorted(slices.Values(names[name]))
			if kinds[0] == "" {
				kinds[0] = "plain"
			}
			short := name[strings.LastIndex(name, ".")+1:]
			if receiver, _, several := strings.Cut(name, "."); several && slices.Contains([]string{"approx", "bucket", "slots", "series", "extref", "schemaversion"}, l.pkg) {
				short = receiver + "." + short
			}
			if len(kinds) < kindsOf(all, l.pkg+"."+name) {
				short += " (" + strings.Join(kinds, "; ") + ")"
			}
			texts = append(texts, short)
		}
		lines = append(lines, []string{l.pkg, strings.Join(texts, ", "), l.everywhere, l.commits, l.inside})
	}
	slices.SortFunc(lines, slices.Compare)
	return append([][]string{{"package", "calls", "asked both shards", "commits over", "in a transaction"}}, lines...)
}

// kindsOf counts the rows of a call.
func kindsOf(all map[string]seen, call string) (n int) {
	for name := range all {
		if have, _, _ := strings.Cut(name, "/"); have == call {
			n++
		}
	}
	return n
}

// The test counts what each call asks of a cluster, and compares it with the file.
func TestShardsTable(t *testing.T) {
	cluster := cluster(t)
	file, err := os.ReadFile(shardsFile)
	if err != nil {
		t.Fatal(err)
	}
	lines, err := csv.NewReader(bytes.NewReader(file)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]seen{}
	for _, r := range append(onShards(registry.Writes()), onShards(registry.Reads())...) {
		t.Run(strings.ReplaceAll(r.Name, "/", ": "), func(t *testing.T) {
			s := placed{Row: r, cluster: cluster}.look(t)
			all[r.Name] = s
			if *update {
				return
			}
			call, _, _ := strings.Cut(strings.TrimPrefix(r.Name, r.Package()+"."), "/")
			call = call[strings.LastIndex(call, ".")+1:]
			if !slices.ContainsFunc(lines, func(l []string) bool {
				return l[0] == r.Package() && strings.Contains(l[1], call) && slices.Equal(l[2:], []string{s.everywhere, s.commits, s.inside})
			}) {
				t.Errorf("%s says otherwise: %s %+v", shardsFile, r.Name, s)
			}
		})
	}
	if t.Failed() || !*update || !scale.Whole() {
		return
	}
	var out bytes.Buffer
	if err := csv.NewWriter(&out).WriteAll(shardsTable(all)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(shardsFile, out.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
}
