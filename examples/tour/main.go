// Command tour walks through the patterns on real data and a real server. For
// each step it prints the stored document, the query, its index and plan, the
// round trips and the result.
//
//	go run ./examples/tour          # for reading
//	go run ./examples/tour -json    # the same as JSON lines
//	go run ./examples/tour tree     # only some patterns
//	go run ./examples/tour -pictures docs/pictures  # draws documents before and after
//
// It starts the server that package mongotest finds, or uses MONGODB_URI, works
// in a database of its own and drops it.
package main

import (
	"context"
	"crypto/rand"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/mongotest"
)

// chapter is a pattern of the tour.
type chapter struct {
	name, about string
	run         func(context.Context, *guide) error
}

// chapters are in order.
var chapters = []chapter{
	{"tree", "airports as a tree: country, state, city, airport", treeChapter},
	{"paging", "airports and routes in pages", pagingChapter},
	{"bucket", "a year of Seattle's weather in buckets", bucketChapter},
	{"series", "the same year as packed blocks", seriesChapter},
	{"attribute", "release dates, prices and Seattle's months as key and value", attributeChapter},
	{"outlier", "airports with more destinations than a document should hold", outlierChapter},
	{"subset", "the ten busiest routes of each airport", subsetChapter},
	{"extref", "routes that carry the names of their airports", extrefChapter},
	{"versioning", "an insurance policy and what it was before", versioningChapter},
	{"relation", "students with courses, people with tasks", relationChapter},
	{"computed", "departures by airport and by state", computedChapter},
	{"approx", "page views and a city's people, counted seldom", approxChapter},
	{"prealloc", "seats of a theatre and days of a calendar", preallocChapter},
	{"polymorphic", "a bowler and a tennis player", polymorphicChapter},
	{"schemaversion", "contacts of two versions", schemaversionChapter},
	{"archive", "the January of Seattle's weather in a collection of its own", archiveChapter},
}

func main() {
	asJSON := flag.Bool("json", false, "print JSON lines")
	pictures := flag.String("pictures", "", "draw a picture of each pattern into this `folder`, and nothing else")
	flag.Usage = func() {
		fmt.Fprintf(flag.CommandLine.Output(), "usage: tour [-json] [pattern ...]\n\npatterns:\n")
		for _, chapter := range chapters {
			fmt.Fprintf(flag.CommandLine.Output(), "  %-13s %s\n", chapter.name, chapter.about)
		}
		flag.PrintDefaults()
	}
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	run := func() error { return tour(ctx, os.Stdout, *asJSON, flag.Args()) }
	if *pictures != "" {
		run = func() error { return draw(ctx, *pictures) }
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "tour:", err)
		os.Exit(1)
	}
}

// draw paints the pictures on a server of its own.
func draw(ctx context.Context, folder string) error {
	server, err := mongotest.Start(ctx, nil)
	if err != nil {
		return err
	}
	defer server.Close()
	client, err := mongo.Connect(options.Client().ApplyURI(server.AdminURI))
	if err != nil {
		return err
	}
	defer client.Disconnect(context.WithoutCancel(ctx))
	return paint(ctx, client, "tour_"+strings.ToLower(rand.Text()), folder)
}

// tour runs the named chapters, or all.
func tour(ctx context.Context, out io.Writer, asJSON bool, names []string) (err error) {
	for _, name := range names {
		if !slices.ContainsFunc(chapters, func(c chapter) bool { return c.name == name }) {
			return fmt.Errorf("no pattern %q on the tour", name)
		}
	}
	server, err := mongotest.Start(ctx, nil)
	if err != nil {
		return err
	}
	defer server.Close()
	recorder := mongotest.NewRecorder()
	client, err := mongo.Connect(options.Client().ApplyURI(server.AdminURI).SetMonitor(recorder.Monitor()))
	if err != nil {
		return err
	}
	db := client.Database("tour_" + strings.ToLower(rand.Text()))
	defer func() {
		// Also after an interrupt.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		dropped := db.Drop(ctx)
		closed := client.Disconnect(ctx)
		for _, cleanup := range []error{dropped, closed} {
			if err == nil {
				err = cleanup
			}
		}
	}()
	g := &guide{out: out, json: asJSON, db: db, recorder: recorder}
	g.intro(server.Engine, server.Version)
	for _, chapter := range chapters {
		if len(names) > 0 && !slices.Contains(names, chapter.name) {
			continue
		}
		g.chapter(chapter.name, chapter.about)
		if err := chapter.run(ctx, g); err != nil {
			return fmt.Errorf("%s: %w", chapter.name, err)
		}
	}
	return g.err
}
