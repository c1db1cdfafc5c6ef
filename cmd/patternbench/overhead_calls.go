package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/approx"
	"github.com/mongopatterns/mongopatterns/attribute"
	"github.com/mongopatterns/mongopatterns/bucket"
	"github.com/mongopatterns/mongopatterns/computed"
	"github.com/mongopatterns/mongopatterns/extref"
	"github.com/mongopatterns/mongopatterns/outlier"
	"github.com/mongopatterns/mongopatterns/paging"
	"github.com/mongopatterns/mongopatterns/prealloc"
	"github.com/mongopatterns/mongopatterns/relation"
	"github.com/mongopatterns/mongopatterns/schemaversion"
	"github.com/mongopatterns/mongopatterns/series"
	"github.com/mongopatterns/mongopatterns/split"
	"github.com/mongopatterns/mongopatterns/subset"
	"github.com/mongopatterns/mongopatterns/timeseries"
	"github.com/mongopatterns/mongopatterns/tree"
	"github.com/mongopatterns/mongopatterns/versioning"
)

func attributeCalls(ctx context.Context, b *bench, db *mongo.Database) []call {
	coll, text := db.Collection("attribute"), prose(b.rand, 400)
	a := must(attribute.New[int, int](coll, nil))
	document := func(i int) any {
		entries := bson.A{}
		for n := range 12 {
			entries = append(entries, d("k", specification(i, n), "v", n))
		}
		return d("_id", i, "title", text, "attributes", entries)
	}
	check(fill(ctx, coll, 100, document), fillFrom(ctx, coll, 1000, 1100, document), a.EnsureIndexes(ctx))
	get := func(name string, from int) call {
		return call{name, oneRead, func(ctx context.Context, i int) error {
			return errorOf(a.Get(ctx, from+i%100, attribute.Named(specification(i%100, 3))))
		}, func(ctx context.Context, i int) error {
			out, err := findOne[struct{ Attributes []struct{ V int } }](ctx, coll, bson.D{e("_id", from+i%100)}, options.FindOne().SetProjection(
				bson.D{e("_id", 0), e("attributes", bson.D{e("$elemMatch", bson.D{e("k", specification(i%100, 3))})})}))
			return errors.Join(err, want(len(out.Attributes), 1))
		}, "A projection that the server evaluates distinguishes a missing entry from one without a value, and a field that is not an array. The user's registry decodes the value."}
	}
	below, above := byID(get, "attribute.Get")
	return []call{below, above, call{"attribute.Set", oneWrite, func(ctx context.Context, i int) error {
		return a.Set(ctx, i%50, attribute.Named(specification(i%50, 3)), i)
	}, func(ctx context.Context, i int) error {
		key := specification(i%50, 3)
		result, err := coll.UpdateOne(ctx, bson.D{e("_id", 50+i%50), e("attributes.k", key)}, bson.D{e("$set", bson.D{e("attributes.$.v", i)})})
		if err != nil || result.MatchedCount > 0 {
			return err
		}
		return errorOf(coll.UpdateOne(ctx, bson.D{e("_id", 50+i%50), e("attributes.k", bson.D{e("$ne", key)})},
			bson.D{e("$push", bson.D{e("attributes", bson.D{e("k", key), e("v", i)})})}))
	}, "One pipeline adds the entry or changes it, where the hand-written $set needs a second trip for a new key."},
		{"attribute.Filter", oneRead, func(ctx context.Context, i int) error {
			return errorOf(findAll[bson.Raw](ctx, -1, coll, a.Filter(a.Equals(attribute.Named(specification(i%100, 3)), 3)), options.Find().SetLimit(10)))
		}, func(ctx context.Context, i int) error {
			filter := bson.D{e("attributes", bson.D{e("$elemMatch", bson.D{e("k", specification(i%100, 3)), e("v", 3)})})}
			return errorOf(findAll[bson.Raw](ctx, -1, coll, filter, options.Find().SetLimit(10)))
		}, ""}}
}

type outlierItems struct {
	Overflow bool     `bson:"items_overflow"`
	Items    []string `bson:"items"`
}

func outlierCalls(ctx context.Context, b *bench, db *mongo.Database) []call {
	coll, text := db.Collection("outlier"), prose(b.rand, 400)
	l := must(outlier.New[int, string](coll, db.Collection("outlier_extras"), nil))
	document := func(i int) any {
		items := bson.A{}
		for n := range 20 {
			items = append(items, buyer(n))
		}
		return d("_id", i, "title", text, "items", items)
	}
	check(fill(ctx, coll, 400, document), fillFrom(ctx, coll, 1000, 1100, document), l.EnsureIndexes(ctx))
	total := func(name string, from int) call {
		return call{name, oneRead, func(ctx context.Context, i int) error {
			return errorOf(l.Total(ctx, from+i%100))
		}, func(ctx context.Context, i int) error {
			return errorOf(findOne[struct {
				Overflow bool `bson:"items_overflow"`
				Total    int64
			}](ctx, coll, bson.D{e("_id", from+i%100)}, options.FindOne().SetProjection(bson.D{e("items_overflow", 1),
				e("total", bson.D{e("$add", bson.A{bson.D{e("$ifNull", bson.A{"$items_outside", 0})}, bson.D{e("$size", "$items")}})})})))
		}, ""}
	}
	below, above := byID(total, "outlier.Total")
	return []call{below, above, call{"outlier.Add", oneWrite, func(ctx context.Context, i int) error {
		return errorOf(l.Add(ctx, 100+i%100, buyer(i)))
	}, func(ctx context.Context, i int) error {
		result, err := coll.UpdateOne(ctx, bson.D{e("_id", 100+i%100), e("items_overflow", nil), e("items.999", bson.D{e("$exists", false)})},
			bson.D{e("$push", bson.D{e("items", buyer(i))})})
		if err != nil {
			return err
		}
		return want(int(result.MatchedCount), 1)
	}, "The filter also bounds the bytes of the array, with $bsonSize in an $expr, keeps null and what is not adopted apart, and serves outliers in the same trip."},
		{"outlier.All", oneRead, func(ctx context.Context, i int) error {
			return drain(l.All(ctx, 200+i%100))
		}, func(ctx context.Context, i int) error {
			out, err := findOne[outlierItems](ctx, coll, bson.D{e("_id", 200+i%100)}, options.FindOne().SetProjection(bson.D{e("items_overflow", 1), e("items", 1)}))
			return errors.Join(err, want(len(out.Items), 20))
		}, ""},
		{"outlier.Contains", oneRead, func(ctx context.Context, i int) error {
			return errorOf(l.Contains(ctx, 200+i%100, buyer(i%20)))
		}, func(ctx context.Context, i int) error {
			// A filter on the buyer would not tell a book without the buyer from none.
			out, err := findOne[outlierItems](ctx, coll, bson.D{e("_id", 200+i%100)}, options.FindOne().SetProjection(
				bson.D{e("items_overflow", 1), e("items", bson.D{e("$elemMatch", bson.D{e("$eq", buyer(i%20))})})}))
			return errors.Join(err, want(len(out.Items), 1))
		}, ""}}
}

func subsetCalls(ctx context.Context, b *bench, db *mongo.Database) []call {
	products, reviews, text := db.Collection("subset"), db.Collection("subset_items"), prose(b.rand, 400)
	s := must(subset.New[int, review](products, reviews, &subset.Options{ParentField: "product", ArrayField: "reviews", Sort: d("date", -1), CountField: "num_reviews"}))
	check(fill(ctx, products, 100, func(i int) any {
		p := product{ID: i, Name: text}
		for n := range 20 {
			p.Reviews = append(p.Reviews, review{n*100 + i, "Kristina", 5, time.UnixMilli(int64(n)), text})
		}
		return p
	}), s.EnsureIndexes(ctx))
	must(s.Adopt(ctx, nil))
	next := func(i, id int) review { return review{id, "Kristina", 5, time.UnixMilli(int64(1000 + i)), text} }
	newestTen := func(r review) bson.D {
		return bson.D{
			e("$push", bson.D{e("reviews", bson.D{e("$each", []review{r}), e("$sort", bson.D{e("date", -1), e("_id", -1)}), e("$slice", 10)})}),
			e("$inc", bson.D{e("num_reviews", 1)})}
	}
	return []call{call{"subset.Insert", floor{trips: 3, why: "who leaves the array is an answer to the first write; the other collection; the commit"}, func(ctx context.Context, i int) error {
		return errorOf(s.Insert(ctx, i%50, next(i, 10_000+2*i)))
	}, func(ctx context.Context, i int) error {
		r := next(i, 10_001+2*i)
		return byHand(ctx, b.client, func(ctx context.Context) error {
			_, err := products.UpdateOne(ctx, bson.D{e("_id", i%50)}, newestTen(r))
			if err != nil {
				return err
			}
			_, err = reviews.InsertOne(ctx, reviewApart{r, i % 50})
			return err
		})
	}, "It makes sure that what leaves the array is stored in the collection, by an update of nothing in the command that inserts, and has the server answer who leaves; by hand an item that is stored nowhere else is lost."},
		{"subset.Top", oneRead, func(ctx context.Context, i int) error {
			items, err := s.Top(ctx, 50+i%50)
			return errors.Join(err, want(len(items), 10))
		}, func(ctx context.Context, i int) error {
			p, err := findOne[product](ctx, products, bson.D{e("_id", 50+i%50)}, options.FindOne().SetProjection(bson.D{e("_id", 0), e("reviews", 1)}))
			return errors.Join(err, want(len(p.Reviews), 10))
		}, ""},
		{"subset.All, 20 items", oneRead, func(ctx context.Context, i int) error {
			return drain(s.All(ctx, 50+i%50))
		}, func(ctx context.Context, i int) error {
			return errorOf(findAll[review](ctx, 20, reviews, bson.D{e("product", 50+i%50)}, options.Find().SetSort(bson.D{e("date", -1), e("_id", -1)})))
		}, ""}}
}

func splitCalls(ctx context.Context, b *bench, db *mongo.Database) []call {
	hot, cold, text := db.Collection("hot"), db.Collection("cold"), prose(b.rand, 400)
	s := must(split.New[int, film, filmDetails](hot, cold, &split.Options{IDField: "film_id"}))
	document := func(i int) any { return d("_id", i, "title", "t", "year", i, "cast", []string{"Anna"}) }
	check(s.EnsureIndexes(ctx), fill(ctx, hot, 100, document), fillFrom(ctx, hot, 1000, 1100, document),
		fill(ctx, cold, 100, func(i int) any { return d("film_id", i, "plot", text, "reviews", text, "votes", 0) }))
	getHot := func(name string, from int) call {
		return call{name, oneRead, func(ctx context.Context, i int) error { return errorOf(s.GetHot(ctx, from+i%100)) },
			func(ctx context.Context, i int) error {
				return errorOf(findOne[film](ctx, hot, bson.D{e("_id", from+i%100)}))
			}, ""}
	}
	type hotFilm struct {
		ID   int  `bson:"_id"`
		Film film `bson:",inline"`
	}
	type coldFilm struct {
		ID      int         `bson:"film_id"`
		Details filmDetails `bson:",inline"`
	}
	below, above := byID(getHot, "split.GetHot")
	return []call{below, above, call{"split.Get", oneRead, func(ctx context.Context, i int) error {
		_, _, err := s.Get(ctx, i%100)
		return err
	}, func(ctx context.Context, i int) error {
		return errorOf(aggregate[struct {
			Film film          `bson:",inline"`
			Cold []filmDetails `bson:"cold"`
		}](ctx, 1, hot, bson.D{e("$match", bson.D{e("_id", i%100)})}, bson.D{e("$lookup", bson.D{
			e("from", "cold"), e("localField", "_id"), e("foreignField", "film_id"), e("as", "cold")})}))
	}, "It has the server look for cold fields that still stand in the hot document, and takes them: whole documents are right before, during and after Adopt."}, {"split.Update of hot", oneWrite, func(ctx context.Context, i int) error {
		return s.Update(ctx, i%50, d("$set", d("year", i)), nil)
	}, func(ctx context.Context, i int) error {
		return errorOf(hot.UpdateOne(ctx, bson.D{e("_id", i%50)}, bson.D{e("$set", bson.D{e("year", i)})}))
	}, "It looks through the operators for fields of the other side."}, call{"split.Update of cold", floor{trips: 2, why: "the hot document may still hold the field: it is asked before the cold one is written"}, func(ctx context.Context, i int) error {
		return s.Update(ctx, i%50, nil, d("$set", d("votes", i)))
	}, func(ctx context.Context, i int) error {
		return errorOf(cold.UpdateOne(ctx, bson.D{e("film_id", i%50)}, bson.D{e("$set", bson.D{e("votes", i)})}))
	}, "It looks first whether cold fields still stand in the hot document, which counts as the newer until Adopt has reached it: 1 round trip more. By hand such an update is overwritten."},
		call{"split.Insert", twoWrites, func(ctx context.Context, i int) error {
			return s.Insert(ctx, 2000+2*i, film{Title: "t", Year: i}, filmDetails{text, text, 0})
		}, func(ctx context.Context, i int) error {
			return byHand(ctx, b.client, func(ctx context.Context) error {
				_, err := hot.InsertOne(ctx, hotFilm{2001 + 2*i, film{Title: "t", Year: i}})
				if err != nil {
					return err
				}
				_, err = cold.InsertOne(ctx, coldFilm{2001 + 2*i, filmDetails{text, text, 0}})
				return err
			})
		}, "It encodes both documents before the transaction, to set the ID and to refuse a field on the wrong side."}}
}

func extrefCalls(ctx context.Context, b *bench, db *mongo.Database) []call {
	customers, orders, text := db.Collection("customers"), db.Collection("orders"), prose(b.rand, 400)
	ref := must(extref.New[int, customer](customers, []extref.Target{{
		Collection: orders, Path: "customer", Fields: []extref.Field{{Path: "name"}, {Path: "city"}},
	}}, nil))
	who := func(i int) customer { return customer{i, "Katrina Pope", "Springfield", text, 1} }
	check(ref.EnsureIndexes(ctx), fill(ctx, customers, 100, func(i int) any { return who(i) }),
		fill(ctx, orders, 1000, func(i int) any {
			return d("_id", i, "customer", d("_id", i%100, "name", "Katrina Pope", "city", "Springfield", "version", 1))
		}))
	return []call{call{"extref.Copy", inMemory, func(_ context.Context, i int) error {
		return errorOf(ref.Copy("orders.customer", who(i)))
	}, func(_ context.Context, i int) error {
		from := who(i)
		return errorOf(bson.Marshal(bson.D{e("_id", from.ID), e("name", from.Name), e("city", from.City), e("version", from.Version)}))
	}, "It encodes the whole source by the user's own codecs, as a call of any type must, and looks four fields up in it. The line by hand names its fields in Go."},
		{"extref.Fetch", oneRead, func(ctx context.Context, i int) error {
			return errorOf(ref.Fetch(ctx, "orders.customer", i%100))
		}, func(ctx context.Context, i int) error {
			return errorOf(findOne[bson.D](ctx, customers, bson.D{e("_id", i%100)},
				options.FindOne().SetProjection(bson.D{e("_id", 1), e("version", 1), e("name", 1), e("city", 1)})))
		}, ""},
		call{"extref.Update of what is not copied", oneWrite, func(ctx context.Context, i int) error {
			return errorOf(ref.Update(ctx, i%50, d("$set", d("notes", buyer(i)))))
		}, func(ctx context.Context, i int) error {
			return errorOf(customers.UpdateOne(ctx, bson.D{e("_id", 50+i%50)}, bson.D{e("$set", bson.D{e("notes", buyer(i))})}))
		}, "It looks through the operators for copied fields, and is a findAndModify, whose answer brings the version."},
		call{"extref.Update with 10 copies", floor{trips: 3, why: "the copies get the version that the write of the source answers; the commit"}, func(ctx context.Context, i int) error {
			return errorOf(ref.Update(ctx, i%50, d("$set", d("name", buyer(i)))))
		}, func(ctx context.Context, i int) error {
			return byHand(ctx, b.client, func(ctx context.Context) error {
				var after customer
				err := customers.FindOneAndUpdate(ctx, bson.D{e("_id", 50+i%50)},
					bson.D{e("$set", bson.D{e("name", buyer(i))}), e("$inc", bson.D{e("version", 1)})},
					options.FindOneAndUpdate().SetReturnDocument(options.After).SetProjection(bson.D{e("version", 1)})).Decode(&after)
				if err != nil {
					return err
				}
				_, err = orders.UpdateMany(ctx, bson.D{e("customer._id", 50+i%50), e("customer.version", bson.D{e("$lt", after.Version)})},
					bson.D{e("$set", bson.D{e("customer.name", buyer(i)), e("customer.version", after.Version)})})
				return err
			})
		}, "The filter says also that the update changes a value and that the version can be raised, the writes ask for the shape of the copies, and a second statement of the same command counts what could not be brought up to date."}}
}

func relationCalls(ctx context.Context, b *bench, db *mongo.Database) []call {
	people, tasks, text := db.Collection("people"), db.Collection("tasks"), prose(b.rand, 400)
	listed := must(relation.New[int, int, course](people, tasks, &relation.Options{ChildrenField: "tasks"}))
	owned := must(relation.New[int, int, course](people, tasks, &relation.Options{OwnerField: "owner"}))
	person := func(i int) any {
		ids := bson.A{}
		for n := range 20 {
			ids = append(ids, (i*7+n*3)%500)
		}
		return d("_id", i, "tasks", ids)
	}
	check(listed.EnsureIndexes(ctx), owned.EnsureIndexes(ctx), fill(ctx, people, 100, person), fillFrom(ctx, people, 1000, 1100, person),
		fill(ctx, tasks, 500, func(i int) any { return d("_id", i, "title", "t", "text", text, "owner", i%20) }))
	has := func(name string, from int) call {
		return call{name, oneRead, func(ctx context.Context, i int) error {
			return errorOf(listed.Has(ctx, from+50+i%50, i%500))
		}, func(ctx context.Context, i int) error {
			err := people.FindOne(ctx, bson.D{e("_id", from+50+i%50), e("tasks", i%500)}, options.FindOne().SetProjection(bson.D{e("_id", 1)})).Err()
			if errors.Is(err, mongo.ErrNoDocuments) {
				return nil
			}
			return err
		}, ""}
	}
	below, above := byID(has, "relation.Has")
	return append(relationReads(people, tasks, listed, owned), below, above,
		call{"relation.Link", oneWrite, func(ctx context.Context, i int) error {
			return listed.Link(ctx, i%25, 1000+i)
		}, func(ctx context.Context, i int) error {
			return errorOf(people.UpdateOne(ctx, bson.D{e("_id", 25+i%25), e("tasks.9999", bson.D{e("$exists", false)})},
				bson.D{e("$addToSet", bson.D{e("tasks", 1000+i)})}))
		}, "The filter asks also that the list is not null."},
		call{"relation.Insert", twoWrites, func(ctx context.Context, i int) error {
			return errorOf(owned.Insert(ctx, i%20, course{1000 + 2*i, "t", text}))
		}, func(ctx context.Context, i int) error {
			return byHand(ctx, b.client, func(ctx context.Context) error {
				result, err := people.UpdateOne(ctx, bson.D{e("_id", i%20)}, bson.D{e("$inc", bson.D{e("messages", 1)})})
				if err == nil && result.MatchedCount == 0 {
					err = mongo.ErrNoDocuments
				}
				if err == nil {
					_, err = tasks.InsertOne(ctx, struct {
						Course course `bson:",inline"`
						Owner  int    `bson:"owner"`
					}{course{1001 + 2*i, "t", text}, i % 20})
				}
				return err
			})
		}, "By hand the write that keeps the parent from being deleted leaves a counter in it. The package leaves nothing: it sets a field and unsets it, two updates in one command."})
}

func relationReads(people, tasks *mongo.Collection, listed, owned *relation.Relation[int, int, course]) []call {
	twenty := func(i int) []int {
		ids := make([]int, 20)
		for n := range ids {
			ids[n] = (i + n) % 500
		}
		return ids
	}
	return []call{{"relation.Children, 20 children", floor{trips: 1, why: "a pipeline with $lookup could; two queries take less time, as the case courses shows"}, func(ctx context.Context, i int) error {
		joined, err := listed.Children(ctx, 50+i%50, nil)
		return errors.Join(err, want(len(joined.Items), 20))
	}, func(ctx context.Context, i int) error {
		parent, err := findOne[struct{ Tasks []int }](ctx, people, bson.D{e("_id", 50+i%50)}, options.FindOne().SetProjection(bson.D{e("tasks", 1)}))
		if err != nil {
			return err
		}
		return inOrder(ctx, tasks, parent.Tasks)
	}, "Each ID is told from the others by its BSON value, whatever its type is; by hand it is an int, the key of a map."},
		{"relation.First, 20 children", oneRead, func(ctx context.Context, i int) error {
			items, err := owned.First(ctx, i%20, 20, nil)
			return errors.Join(err, want(len(items), 20))
		}, func(ctx context.Context, i int) error {
			return errorOf(findAll[course](ctx, 20, tasks, bson.D{e("owner", i%20)}, options.Find().SetSort(bson.D{e("_id", -1)}).SetLimit(20)))
		}, ""},
		{"relation.Fetch, 20 IDs", oneRead, func(ctx context.Context, i int) error {
			joined, err := relation.Fetch[int, course](ctx, tasks, twenty(i), nil)
			return errors.Join(err, want(len(joined.Items), 20))
		}, func(ctx context.Context, i int) error { return inOrder(ctx, tasks, twenty(i)) }, ""}}
}

type node struct {
	ID   int    `bson:"_id"`
	Name string `bson:"name"`
}

func treeCalls(ctx context.Context, b *bench, db *mongo.Database) []call {
	arrays, paths := db.Collection("ancestors"), db.Collection("path")
	t := must(tree.New[int, node](arrays, tree.AncestorArray, &tree.Options{ChildCountField: "children"})) // as by hand
	p := must(tree.New[int, node](paths, tree.MaterializedPath, nil))
	for _, t := range []*tree.Tree[int, node]{t, p} {
		check(t.EnsureIndexes(ctx))
		must(t.Load(ctx, func(yield func(tree.Entry[int, node], error) bool) {
			for i := range 400 { // a tree in which each node has four children
				e := tree.Entry[int, node]{Value: node{i, "n"}}
				if i > 0 {
					parent := (i - 1) / 4
					e.Parent = &parent
				}
				if !yield(e, nil) {
					return
				}
			}
		}, t.AsRoot(), nil))
	}
	return []call{{"tree.Ancestors, array", oneRead, func(ctx context.Context, i int) error { return errorOf(t.Ancestors(ctx, 100+i%300)) },
		func(ctx context.Context, i int) error { return ancestorsByArray(ctx, arrays, 100+i%300) },
		"The server unwinds and sorts the ancestors, however many. By hand all come in one document, which 16 MB bound."},
		call{"tree.Ancestors, path", oneRead, func(ctx context.Context, i int) error { return errorOf(p.Ancestors(ctx, 100+i%300)) },
			func(ctx context.Context, i int) error { return ancestorsByPath(ctx, paths, 100+i%300) },
			"It sends one query, in which the server splits the path, joins and sorts. By hand there are two, which take less time as long as a round trip costs nothing: client and server share a machine here."},
		call{"tree.Children", oneRead, func(ctx context.Context, i int) error { return drain(t.Children(ctx, i%90)) }, func(ctx context.Context, i int) error {
			return errorOf(findAll[node](ctx, 4, arrays, bson.D{e("parent", i%90)}))
		}, "It yields a node at a time, where by hand all are in one slice."},
		{"tree.Descendants, array", oneRead, func(ctx context.Context, i int) error { return drain(t.Descendants(ctx, 1+i%4, 0)) }, func(ctx context.Context, i int) error {
			return errorOf(findAll[node](ctx, -1, arrays, bson.D{e("ancestors", 1+i%4)}))
		}, ""},
		call{"tree.Subtree, array", oneRead, func(ctx context.Context, i int) error { return errorOf(t.Subtree(ctx, 1+i%4, 0)) },
			func(ctx context.Context, i int) error { return subtreeByArray(ctx, arrays, 1+i%4) },
			"IDs and parents of any type become keys of a map, and each node is a value of its own, where by hand they are int and all in one slice."},
		call{"tree.Insert, array", floor{trips: 3, why: "the node gets the ancestors that the write of the parent answers; the commit"}, func(ctx context.Context, i int) error {
			return errorOf(t.Insert(ctx, node{1000 + 2*i, "n"}, t.Under(300+i%100)))
		}, func(ctx context.Context, i int) error {
			return byHand(ctx, b.client, func(ctx context.Context) error {
				var parent struct{ Ancestors []int }
				err := arrays.FindOneAndUpdate(ctx, bson.D{e("_id", 300+i%100)}, bson.D{e("$inc", bson.D{e("children", 1)})},
					options.FindOneAndUpdate().SetProjection(bson.D{e("ancestors", 1)})).Decode(&parent)
				if err == nil {
					_, err = arrays.InsertOne(ctx, struct {
						Node      node  `bson:",inline"`
						Ancestors []int `bson:"ancestors"`
						Parent    int   `bson:"parent"`
					}{node{1001 + 2*i, "n"}, append(parent.Ancestors, 300+i%100), 300 + i%100})
				}
				return err
			})
		}, "The ID and the fields of the tree are taken out of the encoded document, and the parent's array is checked. Both sides count the children."}}
}

func ancestorsByArray(ctx context.Context, coll *mongo.Collection, id int) error {
	found, err := aggregate[struct {
		Ancestors []int  `bson:"ancestors"`
		Nodes     []node `bson:"nodes"`
	}](ctx, 1, coll, bson.D{e("$match", bson.D{e("_id", id)})}, bson.D{e("$lookup", bson.D{
		e("from", "ancestors"), e("localField", "ancestors"), e("foreignField", "_id"), e("as", "nodes")})})
	if err != nil {
		return err
	}
	slices.SortFunc(found[0].Nodes, func(a, b node) int {
		return slices.Index(found[0].Ancestors, a.ID) - slices.Index(found[0].Ancestors, b.ID)
	})
	return nil
}

func ancestorsByPath(ctx context.Context, coll *mongo.Collection, id int) error {
	at, err := findOne[struct{ Path string }](ctx, coll, bson.D{e("_id", id)})
	if err != nil {
		return err
	}
	var ids []int
	for segment := range strings.SplitSeq(strings.Trim(at.Path, ","), ",") {
		id, err := strconv.Atoi(segment)
		if err != nil {
			return err
		}
		ids = append(ids, id)
	}
	found, err := findAll[node](ctx, len(ids), coll, bson.D{e("_id", bson.D{e("$in", ids)})})
	slices.SortFunc(found, func(a, b node) int { return slices.Index(ids, a.ID) - slices.Index(ids, b.ID) })
	return err
}

func subtreeByArray(ctx context.Context, coll *mongo.Collection, id int) error {
	type nested struct {
		ID       int    `bson:"_id"`
		Name     string `bson:"name"`
		Parent   int    `bson:"parent"`
		children []*nested
	}
	found, err := findAll[nested](ctx, -1, coll, bson.D{e("$or", bson.A{bson.D{e("_id", id)}, bson.D{e("ancestors", id)}})})
	byID := make(map[int]*nested, len(found))
	for n := range found {
		byID[found[n].ID] = &found[n]
	}
	for n := range found {
		if parent := byID[found[n].Parent]; parent != nil {
			parent.children = append(parent.children, &found[n])
		}
	}
	return err
}

// degrees is a measurement of the calls of bucket and series.
type degrees struct {
	At   time.Time `bson:"timestamp"`
	Temp float64   `bson:"temperature"`
}

var winter = time.Date(2019, 1, 31, 0, 0, 0, 0, time.UTC)

// minute is the n-th measurement, one a minute.
func minute(n int) degrees { return degrees{winter.Add(time.Duration(n) * time.Minute), 20.5} }

// minutes are n measurements.
func minutes(n int) []degrees {
	all := make([]degrees, n)
	for i := range all {
		all[i] = minute(i)
	}
	return all
}

func bucketCalls(ctx context.Context, _ *bench, db *mongo.Database) []call {
	coll := db.Collection("bucket")
	b := must(bucket.New[int, degrees](coll, timeseries.Every(time.Hour), &bucket.Options{
		CountField: "count", Values: []timeseries.Value{{Field: "temperature", Sum: "sum", Min: "min", Max: "max"}},
	}))
	check(b.EnsureIndexes(ctx))
	must(b.AppendMany(ctx, timeseries.Of(-1, minutes(1440)...), nil))
	one := func(name string, from int) call {
		return call{name, oneWrite, func(ctx context.Context, i int) error {
			return errorOf(b.Append(ctx, from, minute(i)))
		}, func(ctx context.Context, i int) error {
			m := minute(i)
			hour := m.At.Truncate(time.Hour)
			return errorOf(coll.UpdateOne(ctx, bson.D{e("_id", bson.D{e("series", from+1), e("start", hour), e("n", 0)}),
				e("series", from+1), e("start", hour), e("count", bson.D{e("$lt", 1000)})},
				bson.D{e("$push", bson.D{e("measurements", m)}), e("$inc", bson.D{e("count", 1), e("sum", m.Temp)}),
					e("$min", bson.D{e("min", m.Temp)}), e("$max", bson.D{e("max", m.Temp)})},
				options.UpdateOne().SetUpsert(true)))
		}, "It checks the measurement, and its filter that the bucket has room, which it remembers."}
	}
	below, above := byID(one, "bucket.Append")
	return append(bucketReads(b, coll), below, above, call{"bucket.AppendMany, 60 of a series", oneWrite, func(ctx context.Context, i int) error {
		return errorOf(b.AppendMany(ctx, timeseries.Of(10+2*i, minutes(60)...), nil))
	}, func(ctx context.Context, i int) error {
		readings, sum, low, high := minutes(60), 0.0, math.Inf(1), math.Inf(-1)
		for _, m := range readings {
			sum, low, high = sum+m.Temp, min(low, m.Temp), max(high, m.Temp)
		}
		return errorOf(coll.UpdateOne(ctx, bson.D{e("_id", bson.D{e("series", 11+2*i), e("start", winter), e("n", 0)}),
			e("series", 11+2*i), e("start", winter), e("count", bson.D{e("$lte", 940)})},
			bson.D{e("$push", bson.D{e("measurements", bson.D{e("$each", readings)})}), e("$inc", bson.D{e("count", 60), e("sum", sum)}),
				e("$min", bson.D{e("min", low)}), e("$max", bson.D{e("max", high)})},
			options.UpdateOne().SetUpsert(true)))
	}, "It encodes each measurement by itself, to know its time, numbers and bytes before it chooses the buckets."})
}

// bucketReads are calls that read a day of series -1.
func bucketReads(b *bucket.Buckets[int, degrees], coll *mongo.Collection) []call {
	day := bson.D{e("series", -1), e("start", bson.D{e("$gte", winter), e("$lt", winter.AddDate(0, 0, 1))})}
	return []call{
		call{"bucket.Range, a day", oneRead, func(ctx context.Context, i int) error {
			return drain(b.Range(ctx, -1, winter, winter.AddDate(0, 0, 1)))
		}, func(ctx context.Context, i int) error {
			found, err := findAll[struct{ Measurements []degrees }](ctx, 24, coll, day, options.Find().SetSort(bson.D{e("start", 1)}).SetProjection(bson.D{e("measurements", 1)}))
			for _, b := range found {
				slices.SortStableFunc(b.Measurements, func(x, y degrees) int { return x.At.Compare(y.At) })
			}
			return err
		}, "Late measurements go to their place, so it reads the time of each before it decodes them. Checking the order after the decode, as by hand, needs to know the struct."},
		{"bucket.Aggregate, a day", oneRead, func(ctx context.Context, i int) error {
			return errorOf(b.Aggregate(ctx, -1, winter, winter.AddDate(0, 0, 1)))
		}, func(ctx context.Context, i int) error {
			return errorOf(aggregate[struct {
				Count         int64
				Sum, Min, Max float64
			}](ctx, 1, coll, bson.D{e("$match", day)}, bson.D{e("$group", bson.D{e("_id", nil),
				e("count", bson.D{e("$sum", "$count")}), e("sum", bson.D{e("$sum", "$sum")}),
				e("min", bson.D{e("$min", "$min")}), e("max", bson.D{e("$max", "$max")})})}))
		}, ""},
	}
}

// seriesDay is a stored day of a series: by hand its blocks are bytes that nobody packs and unpacks.
type seriesDay struct {
	ID     bson.Raw `bson:"_id"`
	Count  int64
	Blocks []bson.Binary
	Stats  bson.Raw
}

func seriesCalls(ctx context.Context, _ *bench, db *mongo.Database) []call {
	coll := db.Collection("series")
	s := must(series.New[int, degrees](coll, timeseries.Days(time.UTC), &series.Options{Values: []timeseries.Value{{Field: "temperature"}}}))
	check(s.EnsureIndexes(ctx))
	for id := -2; id < 0; id++ {
		must(s.AppendMany(ctx, timeseries.Of(id, minutes(1440)...), nil))
	}
	must(s.Compact(ctx, nil))
	const packs = "It packs or unpacks the block. By hand the block is bytes that are there already."
	day := func(id int) bson.D {
		return bson.D{e("series", id), e("start", bson.D{e("$gte", winter), e("$lt", winter.AddDate(0, 0, 1))})}
	}
	blocks := map[int]bson.Binary{} // by their number of rows
	for _, rows := range []int{1, 60} {
		must(s.AppendMany(ctx, timeseries.Of(-10-rows, minutes(rows)...), nil))
		blocks[rows] = must(findOne[seriesDay](ctx, coll, day(-10-rows))).Blocks[0]
	}
	push := func(ctx context.Context, id, rows int) error {
		return errorOf(coll.UpdateOne(ctx, bson.D{e("_id", bson.D{e("series", id), e("start", winter), e("n", 0)}), e("series", id), e("start", winter)},
			bson.D{e("$push", bson.D{e("blocks", blocks[rows])}), e("$inc", bson.D{e("count", rows), e("bytes", len(blocks[rows].Data)),
				e("stats.temperature.count", rows), e("stats.temperature.sum", 20.5), e("stats.temperature.squares", 420.25)}),
				e("$min", bson.D{e("stats.temperature.min", 20.5)}), e("$max", bson.D{e("stats.temperature.max", 20.5)})},
			options.UpdateOne().SetUpsert(true)))
	}
	read := func(ctx context.Context, opts *options.FindOptionsBuilder) error {
		return errorOf(findAll[seriesDay](ctx, 1, coll, day(-1), opts))
	}
	return []call{
		{"series.Append", oneWrite, func(ctx context.Context, i int) error { return s.Append(ctx, 10+2*i, minute(i)) },
			func(ctx context.Context, i int) error { return push(ctx, 11+2*i, 1) }, packs},
		{"series.AppendMany, 60 of a series", oneWrite, func(ctx context.Context, i int) error {
			return errorOf(s.AppendMany(ctx, timeseries.Of(100_000+2*i, minutes(60)...), nil))
		}, func(ctx context.Context, i int) error { return push(ctx, 100_001+2*i, 60) }, packs},
		{"series.Range, a day", oneRead, func(ctx context.Context, _ int) error {
			return drain(s.Range(ctx, -1, winter, winter.AddDate(0, 0, 1)))
		}, func(ctx context.Context, _ int) error {
			return read(ctx, options.Find().SetSort(bson.D{e("start", 1)}))
		}, packs},
		{"series.Latest", oneRead, func(ctx context.Context, _ int) error { return errorOf(s.Latest(ctx, -1)) },
			func(ctx context.Context, _ int) error {
				return read(ctx, options.Find().SetSort(bson.D{e("start", -1)}).SetLimit(2))
			}, packs},
		call{"series.Aggregate, a day", oneRead, func(ctx context.Context, _ int) error {
			return errorOf(s.Aggregate(ctx, -1, winter, winter.AddDate(0, 0, 1)))
		}, func(ctx context.Context, _ int) error {
			return read(ctx, options.Find().SetProjection(bson.D{e("count", 1), e("stats", 1)}))
		}, "It asks for the stored aggregates by name and for the blocks of a window that the time cuts, and decodes each number exactly. By hand they stay bytes."},
		{"series.Replace", floor{trips: 2, why: "the server cannot unpack a block: read it, and write it if nobody has"}, func(ctx context.Context, i int) error {
			m := minute(i % 1440)
			m.Temp += float64(i)
			return s.Replace(ctx, -2, m)
		}, func(ctx context.Context, _ int) error {
			found, err := findAll[seriesDay](ctx, 1, coll, day(-1))
			if err != nil {
				return err
			}
			return errorOf(coll.UpdateOne(ctx, bson.D{e("_id", found[0].ID), e("count", found[0].Count)},
				bson.D{e("$set", bson.D{e("blocks", found[0].Blocks), e("stats", found[0].Stats)}), e("$inc", bson.D{e("revisions", 1)})}))
		}, packs},
	}
}

func pagingCalls(ctx context.Context, b *bench, db *mongo.Database) []call {
	coll, text := db.Collection("paging"), prose(b.rand, 400)
	pager := must(paging.New[order](coll, d("total", -1), nil))
	check(pager.EnsureIndexes(ctx), fill(ctx, coll, 2000, func(i int) any {
		return order{ID: i, CustomerID: i, Total: i % 100, Customer: customer{ID: i, Notes: text}}
	}))
	first := must(pager.Page(ctx, nil, paging.Request{Size: 20}))
	opts := func() *options.FindOptionsBuilder {
		return options.Find().SetSort(bson.D{e("total", -1), e("_id", -1)}).SetLimit(21).SetBatchSize(22)
	}
	return []call{{"paging.Page, first", oneRead, func(ctx context.Context, _ int) error {
		return errorOf(pager.Page(ctx, nil, paging.Request{Size: 20}))
	}, func(ctx context.Context, _ int) error {
		return errorOf(findAll[order](ctx, 21, coll, bson.D{}, opts()))
	}, ""},
		{"paging.Page, after", oneRead, func(ctx context.Context, _ int) error {
			return errorOf(pager.Page(ctx, nil, paging.Request{Size: 20, After: first.Next}))
		}, func(ctx context.Context, _ int) error {
			last := first.Items[19]
			return errorOf(findAll[order](ctx, 21, coll, bson.D{e("$or", bson.A{
				bson.D{e("total", last.Total), e("_id", bson.D{e("$lt", last.ID)})},
				bson.D{e("total", bson.D{e("$lt", last.Total)})},
			})}, opts()))
		}, ""}}
}

type versioned struct {
	Policy   policy `bson:",inline"`
	Revision int64  `bson:"revision"`
	Change   bson.D `bson:"change"`
}

func versioningCalls(ctx context.Context, b *bench, db *mongo.Database) []call {
	current, revisions := db.Collection("policies"), db.Collection("policy_revisions")
	v := must(versioning.New[string, policy](current, revisions, nil))
	check(v.EnsureIndexes(ctx))
	small := policyOf(0)
	small.Items = small.Items[:5]
	var held []versioning.Revision[policy]
	for i := range 20 {
		small.ID = fmt.Sprint(i)
		held = append(held, must(v.Insert(ctx, small, versioning.Change{Author: "elrond"})))
	}
	read := make([]versioned, 10)
	for i := range read {
		read[i] = must(findOne[versioned](ctx, current, d("_id", fmt.Sprint(10+i))))
	}
	return []call{{"versioning.Get", oneRead, func(ctx context.Context, i int) error {
		return errorOf(v.Get(ctx, held[i%20].Document.ID))
	}, func(ctx context.Context, i int) error {
		return errorOf(findOne[versioned](ctx, current, bson.D{e("_id", strconv.Itoa(i%20))}))
	}, ""}, call{"versioning.Save", floor{trips: 3, why: "the history gets what the first write found; the commit"}, func(ctx context.Context, i int) error {
		r := held[i%10]
		r.Document.Premium = i + 1
		r, err := v.Save(ctx, r, versioning.Change{Author: "elrond"})
		held[i%10] = r
		return err
	}, func(ctx context.Context, i int) error {
		r := &read[i%10]
		r.Policy.Premium = i + 1
		change := bson.D{e("at", time.Now()), e("author", "elrond")}
		err := byHand(ctx, b.client, func(ctx context.Context) error {
			before, err := current.FindOneAndUpdate(ctx, bson.D{e("_id", r.Policy.ID), e("revision", r.Revision)},
				bson.D{e("$set", bson.D{e("name", r.Policy.Name), e("premium", r.Policy.Premium), e("items", r.Policy.Items),
					e("revision", r.Revision+1), e("change", change)})}).Raw()
			if err != nil {
				return err
			}
			_, err = revisions.InsertOne(ctx, bson.D{e("document_id", r.Policy.ID), e("revision", r.Revision), e("document", before)})
			return err
		})
		r.Revision++
		return err
	}, "It compares what the caller has with what was read, field by field, and sends only what changed, merges what others have written meanwhile, and returns the document as it is stored, decoded."}}
}

func schemaversionCalls(ctx context.Context, b *bench, db *mongo.Database) []call {
	coll, text := db.Collection("contacts"), prose(b.rand, 400)
	v := must(schemaversion.New[contact](coll, []schemaversion.Step{{Up: func(doc bson.D) (bson.D, error) { return doc, nil }}}, nil))
	one := func(i int) contact { return contact{i, "Anakin", []method{{"home", "503"}}, text, 2} }
	check(fill(ctx, coll, 200, func(i int) any { return one(i) }), fillFrom(ctx, coll, 1000, 1200, func(i int) any { return one(i) }))
	get := func(name string, from int) call {
		return call{name, oneRead, func(ctx context.Context, i int) error { return errorOf(v.Get(ctx, from+i%200)) },
			func(ctx context.Context, i int) error {
				return errorOf(findOne[contact](ctx, coll, bson.D{e("_id", from+i%200)}))
			}, ""}
	}
	below, above := byID(get, "schemaversion.Get")
	return []call{below, above, {"schemaversion.Find, 100", oneRead, func(ctx context.Context, i int) error {
		return drain(v.Find(ctx, d("_id", d("$lt", 100))))
	}, func(ctx context.Context, i int) error {
		return drain(decoded[contact](ctx, coll, bson.D{e("_id", bson.D{e("$lt", 100)})}))
	}, ""}, call{"schemaversion.Insert", oneWrite, func(ctx context.Context, i int) error { return errorOf(v.Insert(ctx, one(2000+2*i))) },
		func(ctx context.Context, i int) error { return errorOf(coll.InsertOne(ctx, one(2001+2*i))) },
		"It encodes the document first and sets its version there, so that none is stored without; the driver then copies the bytes."},
		{"schemaversion.Update", oneWrite, func(ctx context.Context, i int) error {
			return v.Update(ctx, 100+i%50, d("$set", d("name", buyer(i))))
		}, func(ctx context.Context, i int) error {
			return errorOf(coll.UpdateOne(ctx, bson.D{e("_id", 150+i%50), e("schema_version", 2)}, bson.D{e("$set", bson.D{e("name", buyer(i))})}))
		}, ""}}
}

type watched struct {
	ID      int `bson:"_id"`
	Viewers int `bson:"viewers"`
}

func computedCalls(ctx context.Context, b *bench, db *mongo.Database) []call {
	sources, targets := db.Collection("screenings"), db.Collection("films")
	k := must(computed.New[int, int, watched](sources, targets, computed.Rule{
		KeyField: "film",
		Pipeline: mongo.Pipeline{d("$group", d("_id", "$film", "viewers", d("$sum", "$viewers")))},
		Empty:    d("viewers", 0),
	}, &computed.Options{Additive: true}))
	check(k.EnsureIndexes(ctx), fill(ctx, targets, 40, func(i int) any { return d("_id", i) }), fillFrom(ctx, targets, 1000, 1020, func(i int) any { return d("_id", i) }),
		fill(ctx, sources, 1000, func(i int) any { return d("_id", i, "film", i%40, "viewers", i) }))
	must(k.Adopt(ctx, nil))
	get := func(name string, from int) call {
		return call{name, oneRead, func(ctx context.Context, i int) error { return errorOf(k.Get(ctx, from+i%20, time.Hour)) }, func(ctx context.Context, i int) error {
			return errorOf(findOne[struct {
				Film     watched `bson:",inline"`
				Computed struct {
					At    time.Time
					Dirty bool
				}
			}](ctx, targets, bson.D{e("_id", from+i%20)}))
		}, ""}
	}
	below, above := byID(get, "computed.Get")
	return []call{below, above, call{"computed.Change, additive", floor{trips: 5, why: "the write of the callback, what the source adds up to before and after it, the target, the commit"}, func(ctx context.Context, i int) error {
		return k.Change(ctx, []int{i % 1000 / 40 * 40}, func(ctx context.Context) error {
			return errorOf(sources.UpdateOne(ctx, bson.D{e("_id", i%1000/40*40)}, bson.D{e("$inc", bson.D{e("viewers", 1)})}))
		})
	}, func(ctx context.Context, i int) error {
		return byHand(ctx, b.client, func(ctx context.Context) error {
			_, err := sources.UpdateOne(ctx, bson.D{e("_id", i%1000/40*40+1)}, bson.D{e("$inc", bson.D{e("viewers", 1)})})
			if err != nil {
				return err
			}
			_, err = targets.UpdateOne(ctx, bson.D{e("_id", 1)}, bson.D{e("$inc", bson.D{e("viewers", 1)}), e("$currentDate", bson.D{e("computed.at", true)})})
			return err
		})
	}, "By hand the difference is known. The package does not know what the callback writes: it runs the pipeline over the sources before and after it, two round trips more."},
		call{"computed.Mark", oneWrite, func(ctx context.Context, i int) error { return k.Mark(ctx, 20+i%10) }, func(ctx context.Context, i int) error {
			return errorOf(targets.UpdateOne(ctx, bson.D{e("_id", 30+i%10)}, bson.D{e("$set", bson.D{e("computed.dirty", true)}), e("$inc", bson.D{e("computed.epoch", 1)})}))
		}, "Its update is a pipeline, so that a target whose state field is null can be marked too."}}
}

func approxCalls(ctx context.Context, _ *bench, db *mongo.Database) []call {
	coll := db.Collection("views")
	a := must(approx.New[string](coll, &approx.Options{Every: 1_000_000}))
	each := must(approx.New[string](coll, &approx.Options{Every: 1}))
	s := must(approx.NewSampled[string](coll, &approx.Options{Every: 1_000_000_000}))
	check(fill(ctx, coll, 100, func(i int) any { return d("_id", buyer(i), "count", 1) }))
	var mu sync.Mutex
	waiting := map[string]int64{}
	hundred := func(add func(ctx context.Context, key string) error) op {
		return func(ctx context.Context, _ int) error {
			for n := range 100 {
				if err := add(ctx, buyer(n)); err != nil {
					return err
				}
			}
			return nil
		}
	}
	return []call{{"approx.Add, 100 in memory", inMemory, hundred(func(ctx context.Context, key string) error { return a.Add(ctx, key, 1) }),
		hundred(func(ctx context.Context, key string) error {
			mu.Lock()
			waiting[key]++
			full := waiting[key] >= 1_000_000
			mu.Unlock()
			if full {
				return errors.New("too many for this case")
			}
			return nil
		}), "The key is encoded, so that keys that are equal to the server are one, and the writes that are due are chosen by two limits more."},
		{"approx.Add, sampled, 100 not written", inMemory, hundred(func(ctx context.Context, key string) error { return s.Add(ctx, key, 1) }),
			hundred(func(ctx context.Context, key string) error {
				if rand.Float64() < 1e-9 && key != "" {
					return errors.New("too many for this case")
				}
				return ctx.Err()
			}), ""},
		{"approx.Add, written", oneWrite, func(ctx context.Context, i int) error { return each.Add(ctx, buyer(i%50), 1) }, func(ctx context.Context, i int) error {
			return errorOf(coll.UpdateOne(ctx, bson.D{e("_id", buyer(50+i%50))}, bson.D{e("$inc", bson.D{e("count", 1)})}, options.UpdateOne().SetUpsert(true)))
		}, ""},
		{"approx.Get", oneRead, func(ctx context.Context, i int) error { return errorOf(a.Get(ctx, buyer(i%100))) }, func(ctx context.Context, i int) error {
			out, err := findOne[struct{ Count int64 }](ctx, coll, bson.D{e("_id", buyer(i%100))}, options.FindOne().SetProjection(bson.D{e("_id", 0), e("count", 1)}))
			mu.Lock()
			defer mu.Unlock()
			return errors.Join(err, want(int(min(out.Count+waiting[buyer(i%100)], 1)), 1))
		}, ""}}
}

func preallocCalls(ctx context.Context, _ *bench, db *mongo.Database) []call {
	grids := db.Collection("grids")
	g := must(prealloc.New[int, int](grids, nil))
	for i := range 4 {
		check(g.Insert(ctx, i, nil, append(prealloc.Row("A", 100), prealloc.Row("B", 100)...)...))
	}
	free := func(cell string, or ...any) bson.D { // a cell that is held by nobody
		return bson.D{e(cell, bson.D{e("$exists", true)}), e("$or", append(bson.A{bson.D{e(cell+".by", nil)}, bson.D{e(cell+".until", bson.D{e("$lte", time.Now())})}}, or...))}
	}
	seat := func(i int) prealloc.Cell { return prealloc.Cell{Section: "A", Name: fmt.Sprint(1 + i%100)} }
	return []call{{"prealloc.Claim and Release", floor{trips: 2, why: "two calls, each one statement on one document"}, func(ctx context.Context, i int) error {
		if err := g.Claim(ctx, 0, i, seat(i)); err != nil {
			return err
		}
		return g.Release(ctx, 0, i, seat(i))
	}, func(ctx context.Context, i int) error {
		cell := "cells.A." + strconv.Itoa(1+i%100)
		_, err := grids.UpdateOne(ctx, append(bson.D{e("_id", 1)}, free(cell)...),
			bson.D{e("$set", bson.D{e(cell+".by", i)}), e("$unset", bson.D{e(cell+".until", "")})})
		if err != nil {
			return err
		}
		return errorOf(grids.UpdateOne(ctx, bson.D{e("_id", 1), e(cell+".by", i)}, bson.D{e("$unset", bson.D{e(cell+".by", ""), e(cell+".until", "")})}))
	}, "Whether a hold is over is asked of the server's clock, and whether the cell is a document, in an $expr. By hand the client's clock decides."},
		call{"prealloc.Hold", oneWrite, func(ctx context.Context, i int) error { return g.Hold(ctx, 2, 7, time.Minute, seat(i)) }, func(ctx context.Context, i int) error {
			cell := "cells.B." + strconv.Itoa(1+i%100)
			return errorOf(grids.UpdateOne(ctx, append(bson.D{e("_id", 2)}, free(cell, bson.D{e(cell+".by", 7)})...),
				bson.D{e("$set", bson.D{e(cell+".by", 7), e(cell+".until", time.Now().Add(time.Minute))})}))
		}, "The end of the hold is set by the server's clock, which only an update by a pipeline can."},
		{"prealloc.Cells, 200", oneRead, func(ctx context.Context, _ int) error { return errorOf(g.Cells(ctx, 3)) }, func(ctx context.Context, _ int) error {
			return errorOf(findOne[struct {
				Cells map[string]map[string]struct {
					By    *int
					Until time.Time
				}
			}](ctx, grids, bson.D{e("_id", 3)}))
		}, "It asks for the server's time with the grid, to tell which holds are over."}}
}

func polymorphicCalls(ctx context.Context, _ *bench, db *mongo.Database) []call {
	coll, kinds := db.Collection("athletes"), sportKinds()
	check(fill(ctx, coll, 150, func(i int) any { return must(kinds.Encode(athleteOf(i))) }))
	hundred := bson.D{e("_id", bson.D{e("$lt", 100)})}
	one := func(id, i int) bowler { return bowler{id, "Earl Anthony", time.UnixMilli(int64(i)), 219} }
	return []call{{"polymorphic.Find, 100", oneRead, func(ctx context.Context, _ int) error { return drain(kinds.Find(ctx, coll, hundred)) }, func(ctx context.Context, _ int) error {
		c, err := coll.Find(ctx, hundred)
		if err != nil {
			return err
		}
		defer c.Close(ctx)
		var last athlete
		for c.Next(ctx) {
			switch c.Current.Lookup("sport").StringValue() {
			case "bowling":
				var a bowler
				err, last = c.Decode(&a), a
			case "tennis":
				var a tennisPlayer
				err, last = c.Decode(&a), a
			default:
				var a runner
				err, last = c.Decode(&a), a
			}
			if err != nil || last == nil {
				return err
			}
		}
		return c.Err()
	}, ""}, call{"polymorphic.Encode, inserted", oneWrite, func(ctx context.Context, i int) error {
		raw, err := kinds.Encode(one(1000+2*i, i))
		if err != nil {
			return err
		}
		_, err = coll.InsertOne(ctx, raw)
		return err
	}, func(ctx context.Context, i int) error {
		return errorOf(coll.InsertOne(ctx, struct {
			Sport  string `bson:"sport"`
			Bowler bowler `bson:",inline"`
		}{"bowling", one(1001+2*i, i)}))
	}, "Encode returns finished bytes, which the driver then copies field by field as it inserts them. By hand the driver encodes a struct of a known type in place."}}
}

func transactCalls(ctx context.Context, b *bench, db *mongo.Database) []call {
	coll := db.Collection("transact")
	check(fill(ctx, coll, 20, func(i int) any { return d("_id", i) }))
	update := func(ctx context.Context, id int) error {
		return errorOf(coll.UpdateOne(ctx, bson.D{e("_id", id)}, bson.D{e("$inc", bson.D{e("n", 1)})}))
	}
	return []call{{"Transact, one update", floor{trips: 2, why: "what the callback sends, and the commit"}, func(ctx context.Context, i int) error {
		return mongopatterns.Transact(ctx, b.client, func(ctx context.Context) error { return update(ctx, i%10) })
	}, func(ctx context.Context, i int) error {
		return byHand(ctx, b.client, func(ctx context.Context) error { return update(ctx, 10+i%10) })
	}, ""}}
}
