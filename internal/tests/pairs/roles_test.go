package pairs_test

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/approx"
	"github.com/mongopatterns/mongopatterns/archive"
	"github.com/mongopatterns/mongopatterns/attribute"
	"github.com/mongopatterns/mongopatterns/bucket"
	"github.com/mongopatterns/mongopatterns/computed"
	"github.com/mongopatterns/mongopatterns/extref"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/outlier"
	"github.com/mongopatterns/mongopatterns/paging"
	"github.com/mongopatterns/mongopatterns/polymorphic"
	"github.com/mongopatterns/mongopatterns/prealloc"
	"github.com/mongopatterns/mongopatterns/relation"
	"github.com/mongopatterns/mongopatterns/schemaversion"
	"github.com/mongopatterns/mongopatterns/series"
	"github.com/mongopatterns/mongopatterns/slots"
	"github.com/mongopatterns/mongopatterns/split"
	"github.com/mongopatterns/mongopatterns/subset"
	"github.com/mongopatterns/mongopatterns/timeseries"
	"github.com/mongopatterns/mongopatterns/tree"
	"github.com/mongopatterns/mongopatterns/versioning"
)

// A role is a pattern over the shared collection.
type role struct {
	pattern string
	// writes are the top-level fields that it writes to the documents, with % for the tag, and that the history of the
	// other side does not keep.
	writes []string
	open   func(s *side) (*helper, error)
}

// A side is one of the two patterns of a pair. Its fields and collections end in tag.
type side struct {
	db   *mongo.Database
	main *mongo.Collection
	tag  string
	// met says that the condition of the pair is met: what the side does otherwise then, its role says.
	met   bool
	other *helper
	// foreign are the fields that the other pattern writes.
	foreign []string
	// between makes the other side's write, where this one has read a document and not yet written it.
	between func(ctx context.Context) error
}

func (s *side) coll(name string) *mongo.Collection { return s.db.Collection(name + "_" + s.tag) }
func (s *side) name(field string) string           { return field + "_" + s.tag }

// set sets a field of a document with the driver.
func (s *side) set(ctx context.Context, id any, field string, v any) error {
	return testkit.ErrorOf(s.main.UpdateByID(ctx, id, d("$set", d(field, v))))
}

// A helper is what a role has opened. Functions that are nil do nothing.
type helper struct {
	value any
	// seed stores documents of the pattern's own in the shared collection.
	seed func(ctx context.Context) error
	// adopt prepares the documents that all share.
	adopt func(ctx context.Context, ids []any) error
	// step is write n of the pattern, to one of the shared documents or to its own.
	step func(ctx context.Context, ids []any, n int) error
	// oracle returns what the writes should have left.
	oracle func(ctx context.Context, ids []any) error
	// back takes back what was written, after the last step.
	back func(ctx context.Context, ids []any) error
	// reads says that step reads a document before it writes it.
	reads bool
	// own selects the documents of the pattern's own.
	own bson.D
	// leaf says that only the last document belongs to no other.
	leaf bool
	// parts are the collections with what belongs to the documents.
	parts []part
}

type part struct {
	coll  *mongo.Collection
	field string
}

var d = testkit.D

// steps is the number of writes of each pattern. Write n goes to document n%shared.
const steps, shared = 12, 3

// of are the numbers of the writes to a document.
func of(i int) (out []int) {
	for n := i; n < steps; n += shared {
		out = append(out, n)
	}
	return out
}

// each calls fn for each shared document, and stops at an error.
func each(ids []any, fn func(i int, id any) error) error {
	for i, id := range ids {
		if err := fn(i, id); err != nil {
			return fmt.Errorf("document %d: %w", i, err)
		}
	}
	return nil
}

// same returns an error if two values are not printed alike.
func same(have, want any) error {
	if fmt.Sprint(have) != fmt.Sprint(want) {
		return fmt.Errorf("have %v, want %v", have, want)
	}
	return nil
}

type reading struct {
	Timestamp time.Time `bson:"timestamp"`
	N         int       `bson:"n"`
}

var nine = time.Date(2024, 1, 31, 9, 0, 0, 0, time.UTC)

// at is the time of measurement n: three hours, in turn.
func at(n int) time.Time {
	return nine.Add(time.Duration(n%shared)*time.Hour + time.Duration(n)*time.Minute)
}

// measured is the oracle of measurements.
func measured(read func(from, to time.Time) ([]int, error)) error {
	var want []int
	for i := range shared {
		want = append(want, of(i)...)
	}
	have, err := read(nine, nine.Add(24*time.Hour))
	if err != nil {
		return err
	}
	slices.Sort(have)
	slices.Sort(want)
	return same(have, want)
}

func numbers[T any](seq func(yield func(T, error) bool), number func(T) int) (out []int, err error) {
	for v, err := range seq {
		if err != nil {
			return nil, err
		}
		out = append(out, number(v))
	}
	return out, nil
}

func opened(h *helper, value any, err error) (*helper, error) {
	h.value = value
	return h, err
}

// even and odd are the kinds of polymorphic.
type even struct {
	Rest bson.M `bson:",inline"`
}

type odd struct {
	Rest bson.M `bson:",inline"`
}

// again is a value as one of the kind of write n.
func again(v any, field string, n int) any {
	rest := bson.M{}
	switch v := v.(type) {
	case even:
		maps.Copy(rest, v.Rest)
	case odd:
		maps.Copy(rest, v.Rest)
	}
	delete(rest, field)
	if n%2 == 0 {
		return even{rest}
	}
	return odd{rest}
}

// readings appends to a series, and reads it by range.
func readings(s *side, put func(ctx context.Context, n int) error, read func(ctx context.Context, series string, from, to time.Time) iter.Seq2[reading, error]) *helper {
	return &helper{
		own:  d(s.name("start"), d("$exists", true)),
		seed: func(ctx context.Context) error { return first(ctx, put) },
		step: func(ctx context.Context, _ []any, n int) error { return later(ctx, n, put) },
		oracle: func(ctx context.Context, _ []any) error {
			return measured(func(from, to time.Time) ([]int, error) {
				return numbers(read(ctx, "A", from, to), func(r reading) int { return r.N })
			})
		},
	}
}

var roles = []role{
	{"approx", []string{"count_%"}, func(s *side) (*helper, error) {
		c, err := approx.New[any](s.main, &approx.Options{CountField: s.name("count"), Every: 2, Existing: true})
		return opened(&helper{
			step: func(ctx context.Context, ids []any, n int) error { return c.Add(ctx, ids[n%shared], 1) },
			oracle: func(ctx context.Context, ids []any) error {
				if err := c.Close(ctx); err != nil {
					return err
				}
				return each(ids, func(i int, id any) error {
					n, err := c.Get(ctx, id)
					if err != nil {
						return err
					}
					return same(n, len(of(i)))
				})
			},
		}, c, err)
	}},
	{"archive", nil, func(s *side) (*helper, error) {
		old := s.coll("archive")
		opts := &archive.Options{MarkField: s.name("archived")}
		if s.met && s.other != nil {
			for _, p := range s.other.parts {
				opts.Companions = append(opts.Companions, archive.Companion{Live: p.coll, Archived: s.db.Collection(p.coll.Name() + "_old_" + s.tag), Field: p.field})
			}
		}
		a, err := archive.New(s.main, old, opts)
		return opened(&helper{
			// The other pattern's Check must find nothing while a document is away.
			step: func(ctx context.Context, ids []any, n int) error {
				if s.met && s.other != nil && s.other.leaf {
					n = shared - 1
				}
				id := d("_id", ids[n%shared])
				if result, err := a.Move(ctx, id, nil); err != nil || result.Done != 1 {
					return fmt.Errorf("Move: %+v: %w", result, err)
				}
				if s.other != nil {
					if err := s.other.check(ctx, s.met); err != nil {
						return fmt.Errorf("while a document is archived: %w", err)
					}
				}
				result, err := a.Restore(ctx, id, nil)
				if err == nil && result.Done != 1 {
					err = fmt.Errorf("Restore: %+v", result)
				}
				return err
			},
			oracle: func(ctx context.Context, ids []any) error {
				n, err := old.CountDocuments(ctx, bson.D{})
				if err != nil {
					return err
				}
				return same(n, 0)
			},
		}, a, err)
	}},
	{"attribute", []string{"attributes_%"}, func(s *side) (*helper, error) {
		a, err := attribute.New[any, int](s.main, &attribute.Options{ArrayField: s.name("attributes")})
		key := func(n int) attribute.Key { return attribute.Named(fmt.Sprint("k", n%2)) }
		return opened(&helper{
			step: func(ctx context.Context, ids []any, n int) error { return a.Set(ctx, ids[n%shared], key(n), n) },
			oracle: func(ctx context.Context, ids []any) error {
				return each(ids, func(i int, id any) error {
					all := of(i)
					last := all[len(all)-1]
					v, err := a.Get(ctx, id, key(last))
					if err != nil {
						return err
					}
					return same(v, last)
				})
			},
		}, a, err)
	}},
	{"bucket", []string{"series_%", "start_%", "measurements_%", "n_%", "sum_%"}, func(s *side) (*helper, error) {
		b, err := bucket.New[string, reading](s.main, timeseries.Every(time.Hour), &bucket.Options{SeriesField: s.name("series"), StartField: s.name("start"),
			ArrayField: s.name("measurements"), CountField: s.name("n"), Values: []timeseries.Value{{Field: "n", Sum: s.name("sum")}}})
		put := func(ctx context.Context, n int) error {
			return testkit.ErrorOf(b.Append(ctx, "A", reading{at(n), n}))
		}
		return opened(readings(s, put, b.Range), b, err)
	}},
	{"computed", []string{"total_%", "computed_%"}, func(s *side) (*helper, error) {
		sources := s.coll("sources")
		field := s.name("total")
		c, err := computed.New[int, any, bson.D](sources, s.main, computed.Rule{KeyField: "of",
			Pipeline: mongo.Pipeline{d("$group", d("_id", "$of", field, d("$sum", "$n")))}, Empty: d(field, 0)},
			&computed.Options{StateField: s.name("computed")})
		return opened(&helper{
			adopt: func(ctx context.Context, _ []any) error { return testkit.ErrorOf(c.Adopt(ctx, nil)) },
			step: func(ctx context.Context, ids []any, n int) error {
				return c.Change(ctx, []int{n}, func(ctx context.Context) error {
					return testkit.ErrorOf(sources.InsertOne(ctx, d("_id", n, "of", ids[n%shared], "n", n)))
				})
			},
			oracle: func(ctx context.Context, ids []any) error {
				return each(ids, func(i int, id any) error { return s.has(ctx, id, field, sum(of(i))) })
			},
		}, c, err)
	}},
	{"extref", []string{"customer_%"}, func(s *side) (*helper, error) {
		customers := s.coll("customers")
		path := s.name("customer")
		r, err := extref.New[int, bson.D](customers, []extref.Target{{Collection: s.main, Path: path, Fields: []extref.Field{{Path: "name"}}, Name: "copy"}}, nil)
		return opened(&helper{
			adopt: func(ctx context.Context, ids []any) error {
				if err := testkit.ErrorOf(customers.InsertOne(ctx, d("_id", 1, "name", -1))); err != nil {
					return err
				}
				return each(ids, func(_ int, id any) error {
					copied, err := r.Fetch(ctx, "copy", 1)
					if err != nil {
						return err
					}
					return s.set(ctx, id, path, copied)
				})
			},
			step: func(ctx context.Context, _ []any, n int) error {
				return testkit.ErrorOf(r.Update(ctx, 1, d("$set", d("name", n))))
			},
			oracle: func(ctx context.Context, ids []any) error {
				return each(ids, func(_ int, id any) error { return s.has(ctx, id, path+".name", steps-1) })
			},
		}, r, err)
	}},
	{"outlier", []string{"list_%", "list_%_overflow", "list_%_outside", "list_%_moved"}, func(s *side) (*helper, error) {
		more := s.coll("more")
		l, err := outlier.New[any, int](s.main, more, &outlier.Options{ArrayField: s.name("list"), ParentField: "of", Set: true, MaxCount: 2})
		return opened(&helper{
			parts: []part{{more, "of"}},
			step: func(ctx context.Context, ids []any, n int) error {
				return testkit.ErrorOf(l.Add(ctx, ids[n%shared], n))
			},
			oracle: func(ctx context.Context, ids []any) error {
				return each(ids, func(i int, id any) error {
					have, err := numbers(l.All(ctx, id), func(n int) int { return n })
					if err != nil {
						return err
					}
					return same(have, of(i))
				})
			},
		}, l, err)
	}},
	{"paging", nil, func(s *side) (*helper, error) {
		rank := s.name("rank")
		p, err := paging.New[bson.D](s.main, bson.D{{Key: rank, Value: 1}}, nil)
		walk := func(ctx context.Context) error {
			want, err := s.main.CountDocuments(ctx, bson.D{})
			if err != nil {
				return err
			}
			var have int64
			for after := ""; ; {
				page, err := p.Page(ctx, nil, paging.Request{Size: 2, After: after})
				if err != nil {
					return err
				}
				have += int64(len(page.Items))
				if after = page.Next; after == "" {
					return same(have, want)
				}
			}
		}
		return opened(&helper{
			adopt: func(ctx context.Context, ids []any) error {
				return each(ids, func(i int, id any) error { return s.set(ctx, id, rank, -i) })
			},
			step:   func(ctx context.Context, _ []any, _ int) error { return walk(ctx) },
			oracle: func(ctx context.Context, _ []any) error { return walk(ctx) },
		}, p, err)
	}},
	{"polymorphic", nil, func(s *side) (*helper, error) {
		field := s.name("kind")
		k, err := polymorphic.New[any]([]polymorphic.Kind{polymorphic.Of[even]("even"), polymorphic.Of[odd]("odd")}, &polymorphic.Options[any]{KindField: field})
		name := func(n int) string { return []string{"even", "odd"}[n%2] }
		return opened(&helper{
			adopt: func(ctx context.Context, ids []any) error {
				return each(ids, func(i int, id any) error { return s.set(ctx, id, field, "even") })
			},
			reads: true,
			// A document is read, and written whole as one of another kind, or the field of the kind is set.
			step: func(ctx context.Context, ids []any, n int) error {
				id := d("_id", ids[n%shared])
				stored, err := s.main.FindOne(ctx, id).Raw()
				if err != nil {
					return err
				}
				v, err := k.Decode(stored)
				if err != nil {
					return err
				}
				if err := s.between(ctx); err != nil {
					return err
				}
				if s.met {
					return s.set(ctx, ids[n%shared], field, name(n))
				}
				encoded, err := k.Encode(again(v, field, n))
				if err != nil {
					return err
				}
				return testkit.ErrorOf(s.main.ReplaceOne(ctx, id, encoded))
			},
			oracle: func(ctx context.Context, ids []any) error {
				return each(ids, func(i int, id any) error {
					all := of(i)
					want := name(all[len(all)-1])
					if s.met && s.other.back != nil {
						want = name(i) // the first revision brings back its kind
					}
					return s.has(ctx, id, field, want)
				})
			},
		}, k, err)
	}},
	{"prealloc", []string{"cells_%"}, func(s *side) (*helper, error) {
		g, err := prealloc.New[any, int](s.main, &prealloc.Options{CellsField: s.name("cells")})
		grid := func(n int) string { return fmt.Sprint(s.name("grid"), n%shared) }
		return opened(&helper{
			own: d(s.name("cells"), d("$exists", true)),
			seed: func(ctx context.Context) error {
				for i := range shared {
					if err := g.Insert(ctx, grid(i), nil, prealloc.Row("A", steps)...); err != nil {
						return err
					}
				}
				return nil
			},
			step: func(ctx context.Context, _ []any, n int) error {
				return g.Claim(ctx, grid(n), n, prealloc.At("A", fmt.Sprint(n+1)))
			},
			oracle: func(ctx context.Context, _ []any) error {
				for i := range shared {
					counts, err := g.Counts(ctx, grid(i))
					if err != nil {
						return err
					}
					if err := same(counts[0].Claimed, len(of(i))); err != nil {
						return err
					}
				}
				return nil
			},
		}, g, err)
	}},
	{"relation", []string{"tasks_%"}, func(s *side) (*helper, error) {
		tasks := s.coll("tasks")
		r, err := relation.New[any, int, bson.M](s.main, tasks, &relation.Options{ChildrenField: s.name("tasks"), OwnerField: "owner"})
		return opened(&helper{
			parts: []part{{tasks, "owner"}},
			step: func(ctx context.Context, ids []any, n int) error {
				if _, err := r.Insert(ctx, ids[(n+1)%shared], bson.M{"_id": n}); err != nil {
					return err
				}
				return r.Transfer(ctx, n, ids[n%shared])
			},
			oracle: func(ctx context.Context, ids []any) error {
				return each(ids, func(i int, id any) error {
					children, err := r.Children(ctx, id, nil)
					if err != nil {
						return err
					}
					return same(len(children.Items), len(of(i)))
				})
			},
		}, r, err)
	}},
	{"schemaversion", []string{"seen_%"}, func(s *side) (*helper, error) {
		up := s.name("up")
		v, err := schemaversion.New[bson.M](s.main, []schemaversion.Step{{Up: func(doc bson.D) (bson.D, error) {
			return append(doc, bson.E{Key: up, Value: 1}), nil
		}}}, &schemaversion.Options{VersionField: s.name("version"), Leases: s.coll("leases")})
		return opened(&helper{
			step: func(ctx context.Context, ids []any, n int) error {
				if n == steps/2 {
					if result, err := v.Migrate(ctx, v.Newest(), nil); err != nil || result.Failed > 0 {
						return fmt.Errorf("Migrate: %+v: %w", result, err)
					}
				}
				return v.Update(ctx, ids[n%shared], bson.M{"$set": bson.M{s.name("seen"): n}})
			},
			oracle: func(ctx context.Context, ids []any) error {
				// A revision that is current again has the version that it had.
				if _, err := v.Migrate(ctx, v.Newest(), nil); err != nil {
					return err
				}
				return each(ids, func(i int, id any) error {
					if err := s.has(ctx, id, up, 1); err != nil {
						return err
					}
					all := of(i)
					return s.has(ctx, id, s.name("seen"), all[len(all)-1])
				})
			},
		}, v, err)
	}},
	{"series", []string{"series_%", "start_%", "end_%", "n_%", "bytes_%", "blocks_%", "revision_%", "mark_%"}, func(s *side) (*helper, error) {
		c, err := series.New[string, reading](s.main, timeseries.Every(time.Hour), &series.Options{SeriesField: s.name("series"), StartField: s.name("start"),
			EndField: s.name("end"), CountField: s.name("n"), BytesField: s.name("bytes"), BlocksField: s.name("blocks"), RevisionField: s.name("revision"), MarkField: s.name("mark")})
		put := func(ctx context.Context, n int) error { return c.Append(ctx, "A", reading{at(n), n}) }
		return opened(readings(s, put, c.Range), c, err)
	}},
	{"slots", []string{"series_%", "start_%", "data_%"}, func(s *side) (*helper, error) {
		c, err := slots.New[string, int](s.main, timeseries.Every(time.Hour), &slots.Options{SeriesField: s.name("series"), StartField: s.name("start"), DataField: s.name("data")})
		put := func(ctx context.Context, n int) error { return c.Set(ctx, "A", at(n), n) }
		return opened(&helper{
			own:  d(s.name("start"), d("$exists", true)),
			seed: func(ctx context.Context) error { return first(ctx, put) },
			step: func(ctx context.Context, _ []any, n int) error { return later(ctx, n, put) },
			oracle: func(ctx context.Context, _ []any) error {
				return measured(func(from, to time.Time) ([]int, error) {
					return numbers(c.Range(ctx, "A", from, to), func(v slots.Slot[int]) int { return v.Value })
				})
			},
		}, c, err)
	}},
	{"split", []string{"title_%", "plot_%"}, func(s *side) (*helper, error) {
		cold := s.coll("cold")
		title, plot := s.name("title"), s.name("plot")
		v, err := split.New[any, bson.M, bson.M](s.main, cold, &split.Options{ColdFields: []string{plot}, IDField: "of"})
		return opened(&helper{
			parts: []part{{cold, "of"}},
			adopt: func(ctx context.Context, ids []any) error {
				err := each(ids, func(_ int, id any) error { return s.set(ctx, id, plot, -1) })
				if err == nil {
					err = testkit.ErrorOf(v.Adopt(ctx, nil))
				}
				return err
			},
			step: func(ctx context.Context, ids []any, n int) error {
				return v.Update(ctx, ids[n%shared], d("$set", d(title, n)), d("$set", d(plot, n)))
			},
			oracle: func(ctx context.Context, ids []any) error {
				return each(ids, func(i int, id any) error {
					all := of(i)
					hot, details, err := v.Get(ctx, id)
					if err != nil {
						return err
					}
					last := all[len(all)-1]
					return same([]any{hot[title], details[plot]}, []any{last, last})
				})
			},
		}, v, err)
	}},
	{"subset", []string{"best_%", "items_%"}, func(s *side) (*helper, error) {
		items := s.coll("items")
		v, err := subset.New[any, bson.M](s.main, items, &subset.Options{ParentField: "of", ArrayField: s.name("best"), CountField: s.name("items"), N: 2})
		return opened(&helper{
			parts: []part{{items, "of"}},
			step: func(ctx context.Context, ids []any, n int) error {
				return testkit.ErrorOf(v.Insert(ctx, ids[n%shared], bson.M{"_id": n}))
			},
			oracle: func(ctx context.Context, ids []any) error {
				return each(ids, func(i int, id any) error {
					all, err := numbers(v.All(ctx, id), func(m bson.M) int { return int(m["_id"].(int32)) })
					if err != nil {
						return err
					}
					slices.Sort(all)
					return same(all, of(i))
				})
			},
		}, v, err)
	}},
	{"tree", []string{"parent_%", "ancestors_%"}, func(s *side) (*helper, error) {
		parent := s.name("parent")
		c, err := tree.New[any, bson.M](s.main, tree.AncestorArray, &tree.Options{ParentField: parent, AncestorsField: s.name("ancestors"), LockCollection: s.name("locks")})
		return opened(&helper{
			adopt: func(ctx context.Context, ids []any) error {
				_, err := s.main.UpdateMany(ctx, bson.D{}, d("$set", d(parent, nil)))
				if err == nil {
					err = testkit.ErrorOf(c.Adopt(ctx, nil))
				}
				return err
			},
			leaf: true,
			// The last document goes under the first, and back, and in the end below the second.
			step: func(ctx context.Context, ids []any, n int) error {
				if n%2 == 0 {
					return c.Move(ctx, ids[2], c.Under(ids[0]))
				}
				return c.Move(ctx, ids[2], c.Under(ids[1]))
			},
			oracle: func(ctx context.Context, ids []any) error {
				if err := s.has(ctx, ids[2], parent, ids[1]); err != nil {
					return err
				}
				n, err := c.CountDescendants(ctx, ids[1], 0)
				if err != nil {
					return err
				}
				return same(n, 1)
			},
		}, c, err)
	}},
	{"versioning", []string{"revision_%", "change_%", "edited_%"}, func(s *side) (*helper, error) {
		rows := s.coll("revisions")
		field := s.name("edited")
		opts := &versioning.Options{RevisionField: s.name("revision"), ChangeField: s.name("change"), DocumentIDField: "of"}
		if s.met {
			opts.Ignored = s.foreign
		}
		c, err := versioning.New[any, bson.M](s.main, rows, opts)
		return opened(&helper{
			parts: []part{{rows, "of"}},
			reads: true,
			adopt: func(ctx context.Context, _ []any) error { return testkit.ErrorOf(c.Adopt(ctx, nil, nil)) },
			step: func(ctx context.Context, ids []any, n int) error {
				return testkit.ErrorOf(c.Edit(ctx, ids[n%shared], func(m *bson.M) error {
					(*m)[field] = n
					return s.between(ctx)
				}, versioning.Change{}))
			},
			// What the other pattern wrote after the newest revision counts as a change of it, unless it is ignored.
			back: func(ctx context.Context, ids []any) error {
				return each(ids, func(_ int, id any) error {
					newest, err := c.Get(ctx, id)
					if err == nil {
						_, err = c.Undo(ctx, id, newest.Number, versioning.Change{})
					}
					if err == nil {
						_, err = c.Restore(ctx, id, 1, versioning.Change{})
					}
					return err
				})
			},
			oracle: func(ctx context.Context, ids []any) error {
				return each(ids, func(i int, id any) error {
					var have []any
					for r, err := range c.Revisions(ctx, id) {
						if err != nil {
							return err
						}
						if v, ok := r.Document[field]; ok {
							have = append(have, v)
						}
					}
					want := of(i)
					slices.Reverse(want)
					// Undo left the change before the last, and Restore none.
					return same(have, append([]int{want[1]}, want...))
				})
			},
		}, c, err)
	}},
}

// first stores the measurements with which the windows begin.
func first(ctx context.Context, put func(ctx context.Context, n int) error) error {
	for n := range shared {
		if err := put(ctx, n); err != nil {
			return err
		}
	}
	return nil
}

// later stores a measurement that is not one of the first.
func later(ctx context.Context, n int, put func(ctx context.Context, n int) error) error {
	if n < shared {
		return nil
	}
	return put(ctx, n)
}

func sum(of []int) (n int) {
	for _, v := range of {
		n += v
	}
	return n
}

// has requires that a field of a document has a value.
func (s *side) has(ctx context.Context, id any, field string, want any) error {
	stored, err := s.main.FindOne(ctx, d("_id", id)).Raw()
	if err != nil {
		return err
	}
	n, err := s.main.CountDocuments(ctx, d("_id", id, field, want))
	if err == nil && n != 1 {
		err = fmt.Errorf("%s is not %v: %v", field, want, stored)
	}
	return err
}

// check returns the first problem of the helper's Check as an error. With own it checks the documents of its own.
func (h *helper) check(ctx context.Context, own bool) error {
	c, ok := h.value.(mongopatterns.Checker)
	if !ok {
		return nil
	}
	var work *mongopatterns.Work
	if own && h.own != nil {
		work = &mongopatterns.Work{Filter: h.own}
	}
	for p, err := range c.Check(ctx, work) {
		if err != nil {
			return err
		}
		return fmt.Errorf("Check: %s", p)
	}
	return nil
}
