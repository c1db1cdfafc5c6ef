package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
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
	"go.mongodb.org/mongo-driver/v2/mongo/readconcern"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/approx"
	"github.com/mongopatterns/mongopatterns/attribute"
	"github.com/mongopatterns/mongopatterns/bucket"
	"github.com/mongopatterns/mongopatterns/computed"
	"github.com/mongopatterns/mongopatterns/extref"
	"github.com/mongopatterns/mongopatterns/outlier"
	"github.com/mongopatterns/mongopatterns/paging"
	"github.com/mongopatterns/mongopatterns/polymorphic"
	"github.com/mongopatterns/mongopatterns/prealloc"
	"github.com/mongopatterns/mongopatterns/relation"
	"github.com/mongopatterns/mongopatterns/schemaversion"
	"github.com/mongopatterns/mongopatterns/split"
	"github.com/mongopatterns/mongopatterns/subset"
	"github.com/mongopatterns/mongopatterns/timeseries"
	"github.com/mongopatterns/mongopatterns/tree"
	"github.com/mongopatterns/mongopatterns/versioning"
)

var overheadCases = []benchmark{
	{"overhead", "hot calls", "The frequent calls of each package against the same commands written by hand on the driver: what the package itself costs the client, the worst first. The goals are 1.05 of the time and 1.1 of the allocations.", overhead},
}

// call is a call of a package and the same by hand. i counts the calls.
type call struct {
	name       string
	pack, hand func(ctx context.Context, i int) error
}

// calls are those of all packages. Both sides write to the same collections, to documents
// of their own that are alike.
type calls struct {
	*bench
	ctx     context.Context
	all     []call
	reasons map[string]string
}

func (c *calls) add(name string, pack, hand func(ctx context.Context, i int) error) {
	c.all = append(c.all, call{name, pack, hand})
}

// because says why the call name takes more than by hand: the page shows it where the call is
// over a goal.
func (c *calls) because(name, why string) {
	if c.reasons == nil {
		c.reasons = map[string]string{}
	}
	c.reasons[name] = why
}

type node struct {
	ID   int    `bson:"_id"`
	Name string `bson:"name"`
}

type outlierItems struct {
	Overflow bool     `bson:"items_overflow"`
	Items    []string `bson:"items"`
}

type versioned struct {
	Policy   policy `bson:",inline"`
	Revision int64  `bson:"revision"`
	Change   bson.D `bson:"change"`
}

type degrees struct {
	At   time.Time `bson:"timestamp"`
	Temp float64   `bson:"temperature"`
}

func overheadSets(c *calls, db *mongo.Database) error {
	ctx := c.ctx
	text := prose(c.rand, 400)
	{
		coll := db.Collection("attribute")
		a, err := attribute.New[int, int](coll, nil)
		if err != nil {
			return err
		}
		err = fill(ctx, coll, 100, func(i int) any {
			entries := bson.A{}
			for n := range 12 {
				entries = append(entries, d("k", specification(i, n), "v", n))
			}
			return d("_id", i, "title", text, "attributes", entries)
		})
		if err := errors.Join(err, a.EnsureIndexes(ctx)); err != nil {
			return err
		}
		c.add("attribute.Set", func(ctx context.Context, i int) error {
			return a.Set(ctx, i%50, attribute.Named(specification(i%50, 3)), i)
		}, func(ctx context.Context, i int) error {
			key := specification(i%50, 3)
			result, err := coll.UpdateOne(ctx, bson.D{{Key: "_id", Value: 50 + i%50}, {Key: "attributes.k", Value: key}},
				bson.D{{Key: "$set", Value: bson.D{{Key: "attributes.$.v", Value: i}}}})
			if err != nil || result.MatchedCount > 0 {
				return err
			}
			_, err = coll.UpdateOne(ctx, bson.D{{Key: "_id", Value: 50 + i%50}, {Key: "attributes.k", Value: bson.D{{Key: "$ne", Value: key}}}},
				bson.D{{Key: "$push", Value: bson.D{{Key: "attributes", Value: bson.D{{Key: "k", Value: key}, {Key: "v", Value: i}}}}}})
			return err
		})
		c.because("attribute.Get", "The condition that finds the value is made for any key with a qualifier, and the value is decoded by the user's registry.")
		c.because("attribute.Set", "One pipeline adds the entry or changes it, where the hand-written $set needs a second trip for a new key: the server takes longer for it, and building it takes the allocations.")
		c.add("attribute.Get", func(ctx context.Context, i int) error {
			_, err := a.Get(ctx, i%100, attribute.Named(specification(i%100, 3)))
			return err
		}, func(ctx context.Context, i int) error {
			var out struct {
				Attributes []struct{ V int }
			}
			err := coll.FindOne(ctx, bson.D{{Key: "_id", Value: i % 100}}, options.FindOne().SetProjection(bson.D{{Key: "_id", Value: 0},
				{Key: "attributes", Value: bson.D{{Key: "$elemMatch", Value: bson.D{{Key: "k", Value: specification(i%100, 3)}}}}}})).Decode(&out)
			return errors.Join(err, want(len(out.Attributes), 1))
		})
		c.add("attribute.Filter", func(ctx context.Context, i int) error {
			_, err := findAll[bson.Raw](ctx, -1, coll, a.Filter(a.Equals(attribute.Named(specification(i%100, 3)), 3)), options.Find().SetLimit(10))
			return err
		}, func(ctx context.Context, i int) error {
			filter := bson.D{{Key: "attributes", Value: bson.D{{Key: "$elemMatch", Value: bson.D{{Key: "k", Value: specification(i%100, 3)}, {Key: "v", Value: 3}}}}}}
			_, err := findAll[bson.Raw](ctx, -1, coll, filter, options.Find().SetLimit(10))
			return err
		})
	}
	{
		coll := db.Collection("outlier")
		l, err := outlier.New[int, string](coll, db.Collection("outlier_extras"), nil)
		if err != nil {
			return err
		}
		err = fill(ctx, coll, 400, func(i int) any {
			items := bson.A{}
			for n := range 20 {
				items = append(items, buyer(n))
			}
			return d("_id", i, "title", text, "items", items)
		})
		if err := errors.Join(err, l.EnsureIndexes(ctx)); err != nil {
			return err
		}
		c.add("outlier.Add", func(ctx context.Context, i int) error {
			_, err := l.Add(ctx, i%200, buyer(i))
			return err
		}, func(ctx context.Context, i int) error {
			result, err := coll.UpdateOne(ctx, bson.D{{Key: "_id", Value: i % 200}, {Key: "items_overflow", Value: nil}, {Key: "items.999", Value: bson.D{{Key: "$exists", Value: false}}}},
				bson.D{{Key: "$push", Value: bson.D{{Key: "items", Value: buyer(i)}}}})
			if err != nil {
				return err
			}
			return want(int(result.MatchedCount), 1)
		})
		c.because("outlier.Add", "The filter also bounds the bytes of the array, with $bsonSize in an $expr, keeps null and what is not adopted apart, and serves outliers in the same trip.")
		c.add("outlier.All", func(ctx context.Context, i int) error {
			return drain(l.All(ctx, 200+i%100))
		}, func(ctx context.Context, i int) error {
			out, err := findOne[outlierItems](ctx, coll, bson.D{{Key: "_id", Value: 200 + i%100}}, options.FindOne().SetProjection(bson.D{{Key: "items_overflow", Value: 1}, {Key: "items", Value: 1}}))
			return errors.Join(err, want(len(out.Items), 20))
		})
		c.add("outlier.Contains", func(ctx context.Context, i int) error {
			_, err := l.Contains(ctx, 200+i%100, buyer(i%20))
			return err
		}, func(ctx context.Context, i int) error {
			// A filter on the buyer would not tell a book without the buyer from none.
			out, err := findOne[outlierItems](ctx, coll, bson.D{{Key: "_id", Value: 200 + i%100}}, options.FindOne().SetProjection(
				bson.D{{Key: "items_overflow", Value: 1}, {Key: "items", Value: bson.D{{Key: "$elemMatch", Value: bson.D{{Key: "$eq", Value: buyer(i % 20)}}}}}}))
			return errors.Join(err, want(len(out.Items), 1))
		})
		c.add("outlier.Total", func(ctx context.Context, i int) error {
			_, err := l.Total(ctx, 200+i%100)
			return err
		}, func(ctx context.Context, i int) error {
			var out struct {
				Overflow bool `bson:"items_overflow"`
				Total    int64
			}
			return coll.FindOne(ctx, bson.D{{Key: "_id", Value: 200 + i%100}}, options.FindOne().SetProjection(bson.D{{Key: "items_overflow", Value: 1},
				{Key: "total", Value: bson.D{{Key: "$add", Value: bson.A{bson.D{{Key: "$ifNull", Value: bson.A{"$items_outside", 0}}}, bson.D{{Key: "$size", Value: "$items"}}}}}}})).Decode(&out)
		})
	}
	{
		products, reviews := db.Collection("subset"), db.Collection("subset_items")
		s, err := subset.New[int, review](products, reviews, &subset.Options{ParentField: "product", ArrayField: "reviews", Order: d("date", -1), CountField: "num_reviews"})
		if err != nil {
			return err
		}
		err = fill(ctx, products, 100, func(i int) any {
			p := product{ID: i, Name: text}
			for n := range 20 {
				p.Reviews = append(p.Reviews, review{n*100 + i, "Kristina", 5, time.UnixMilli(int64(n)), text})
			}
			return p
		})
		if err := errors.Join(err, s.EnsureIndexes(ctx)); err != nil {
			return err
		}
		if _, err := s.Adopt(ctx, nil); err != nil {
			return err
		}
		c.add("subset.Add", func(ctx context.Context, i int) error {
			_, err := s.Add(ctx, i%50, review{10_000 + 2*i, "Kristina", 5, time.UnixMilli(int64(1000 + i)), text})
			return err
		}, func(ctx context.Context, i int) error {
			r := review{10_001 + 2*i, "Kristina", 5, time.UnixMilli(int64(1000 + i)), text}
			return byHand(ctx, c.client, func(ctx context.Context) error {
				_, err := products.UpdateOne(ctx, bson.D{{Key: "_id", Value: i % 50}}, bson.D{
					{Key: "$push", Value: bson.D{{Key: "reviews", Value: bson.D{{Key: "$each", Value: []review{r}},
						{Key: "$sort", Value: bson.D{{Key: "date", Value: -1}, {Key: "_id", Value: -1}}}, {Key: "$slice", Value: 10}}}}},
					{Key: "$inc", Value: bson.D{{Key: "num_reviews", Value: 1}}}})
				if err == nil {
					_, err = reviews.InsertOne(ctx, struct {
						Review  review `bson:",inline"`
						Product int    `bson:"product"`
					}{r, i % 50})
				}
				return err
			})
		})
		c.because("subset.Add", "It makes sure that what leaves the array is stored in the collection, by an update of nothing in the command that inserts, and has the server answer who leaves; by hand an item that is stored nowhere else is lost.")
		c.add("subset.Top", func(ctx context.Context, i int) error {
			items, err := s.Top(ctx, 50+i%50)
			return errors.Join(err, want(len(items), 10))
		}, func(ctx context.Context, i int) error {
			var p product
			err := products.FindOne(ctx, bson.D{{Key: "_id", Value: 50 + i%50}}, options.FindOne().SetProjection(bson.D{{Key: "_id", Value: 0}, {Key: "reviews", Value: 1}})).Decode(&p)
			return errors.Join(err, want(len(p.Reviews), 10))
		})
		c.add("subset.All, 20 items", func(ctx context.Context, i int) error {
			return drain(s.All(ctx, 50+i%50))
		}, func(ctx context.Context, i int) error {
			_, err := findAll[review](ctx, 20, reviews, bson.D{{Key: "product", Value: 50 + i%50}}, options.Find().SetSort(bson.D{{Key: "date", Value: -1}, {Key: "_id", Value: -1}}))
			return err
		})
	}
	{
		hot, cold := db.Collection("hot"), db.Collection("cold")
		s, err := split.New[int, film, filmDetails](hot, cold, &split.Options{IDField: "film_id"})
		if err != nil {
			return err
		}
		err = errors.Join(s.EnsureIndexes(ctx),
			fill(ctx, hot, 100, func(i int) any { return d("_id", i, "title", "t", "year", i, "cast", []string{"Anna"}) }),
			fill(ctx, cold, 100, func(i int) any { return d("film_id", i, "plot", text, "reviews", text, "votes", 0) }))
		if err != nil {
			return err
		}
		c.add("split.GetHot", func(ctx context.Context, i int) error {
			_, err := s.GetHot(ctx, i%100)
			return err
		}, func(ctx context.Context, i int) error {
			_, err := findOne[film](ctx, hot, bson.D{{Key: "_id", Value: i % 100}})
			return err
		})
		c.add("split.Get", func(ctx context.Context, i int) error {
			_, _, err := s.Get(ctx, i%100)
			return err
		}, func(ctx context.Context, i int) error {
			_, err := aggregate[struct {
				Film film          `bson:",inline"`
				Cold []filmDetails `bson:"cold"`
			}](ctx, 1, hot, bson.D{{Key: "$match", Value: bson.D{{Key: "_id", Value: i % 100}}}}, bson.D{{Key: "$lookup", Value: bson.D{
				{Key: "from", Value: "cold"}, {Key: "localField", Value: "_id"}, {Key: "foreignField", Value: "film_id"}, {Key: "as", Value: "cold"}}}})
			return err
		})
		c.add("split.Update of hot", func(ctx context.Context, i int) error {
			return s.Update(ctx, i%50, d("$set", d("year", i)), nil)
		}, func(ctx context.Context, i int) error {
			_, err := hot.UpdateOne(ctx, bson.D{{Key: "_id", Value: i % 50}}, bson.D{{Key: "$set", Value: bson.D{{Key: "year", Value: i}}}})
			return err
		})
		c.add("split.Update of cold", func(ctx context.Context, i int) error {
			return s.Update(ctx, i%50, nil, d("$set", d("votes", i)))
		}, func(ctx context.Context, i int) error {
			_, err := cold.UpdateOne(ctx, bson.D{{Key: "film_id", Value: i % 50}}, bson.D{{Key: "$set", Value: bson.D{{Key: "votes", Value: i}}}})
			return err
		})
		c.because("split.Update of hot", "The command is the one by hand, and the CPU times of client and server are alike: what is over is how times swing from run to run.")
		c.because("split.Update of cold", "It looks first whether cold fields still stand in the hot document, which counts as the newer until Adopt has reached it: 1 round trip more. By hand such an update is overwritten.")
		c.because("split.Add", "It encodes both documents before the transaction, to set the ID and to refuse a field on the wrong side; the rest is the runner of transactions.")
		c.add("split.Add", func(ctx context.Context, i int) error {
			return s.Add(ctx, 1000+2*i, film{Title: "t", Year: i}, filmDetails{text, text, 0})
		}, func(ctx context.Context, i int) error {
			return byHand(ctx, c.client, func(ctx context.Context) error {
				_, err := hot.InsertOne(ctx, struct {
					ID   int  `bson:"_id"`
					Film film `bson:",inline"`
				}{1001 + 2*i, film{Title: "t", Year: i}})
				if err == nil {
					_, err = cold.InsertOne(ctx, struct {
						ID      int         `bson:"film_id"`
						Details filmDetails `bson:",inline"`
					}{1001 + 2*i, filmDetails{text, text, 0}})
				}
				return err
			})
		})
	}
	return nil
}

func overheadReferences(c *calls, db *mongo.Database) error {
	ctx := c.ctx
	text := prose(c.rand, 400)
	{
		customers, orders := db.Collection("customers"), db.Collection("orders")
		ref, err := extref.New[int, customer](customers, []extref.Target{{
			Collection: orders, Path: "customer", Fields: []extref.Field{{Path: "name"}, {Path: "city"}},
		}}, nil)
		if err != nil {
			return err
		}
		who := func(i int) customer { return customer{i, "Katrina Pope", "Springfield", text, 1} }
		err = errors.Join(ref.EnsureIndexes(ctx),
			fill(ctx, customers, 100, func(i int) any { return who(i) }),
			fill(ctx, orders, 1000, func(i int) any {
				return d("_id", i, "customer", d("_id", i%100, "name", "Katrina Pope", "city", "Springfield", "version", 1))
			}))
		if err != nil {
			return err
		}
		c.add("extref.Reference", func(ctx context.Context, i int) error {
			_, err := ref.Reference("orders.customer", who(i))
			return err
		}, func(ctx context.Context, i int) error {
			from := who(i)
			_, err := bson.Marshal(bson.D{{Key: "_id", Value: from.ID}, {Key: "name", Value: from.Name}, {Key: "city", Value: from.City}, {Key: "version", Value: from.Version}})
			return err
		})
		c.add("extref.Fetch", func(ctx context.Context, i int) error {
			_, err := ref.Fetch(ctx, "orders.customer", i%100)
			return err
		}, func(ctx context.Context, i int) error {
			_, err := findOne[bson.D](ctx, customers, bson.D{{Key: "_id", Value: i % 100}},
				options.FindOne().SetProjection(bson.D{{Key: "_id", Value: 1}, {Key: "version", Value: 1}, {Key: "name", Value: 1}, {Key: "city", Value: 1}}))
			return err
		})
		c.add("extref.Update of what is not copied", func(ctx context.Context, i int) error {
			_, err := ref.Update(ctx, i%50, d("$set", d("notes", buyer(i))))
			return err
		}, func(ctx context.Context, i int) error {
			_, err := customers.UpdateOne(ctx, bson.D{{Key: "_id", Value: 50 + i%50}}, bson.D{{Key: "$set", Value: bson.D{{Key: "notes", Value: buyer(i)}}}})
			return err
		})
		c.add("extref.Update with 10 copies", func(ctx context.Context, i int) error {
			_, err := ref.Update(ctx, i%50, d("$set", d("name", buyer(i))))
			return err
		}, func(ctx context.Context, i int) error {
			return byHand(ctx, c.client, func(ctx context.Context) error {
				var after customer
				err := customers.FindOneAndUpdate(ctx, bson.D{{Key: "_id", Value: 50 + i%50}},
					bson.D{{Key: "$set", Value: bson.D{{Key: "name", Value: buyer(i)}}}, {Key: "$inc", Value: bson.D{{Key: "version", Value: 1}}}},
					options.FindOneAndUpdate().SetReturnDocument(options.After).SetProjection(bson.D{{Key: "version", Value: 1}})).Decode(&after)
				if err == nil {
					_, err = orders.UpdateMany(ctx, bson.D{{Key: "customer._id", Value: 50 + i%50}, {Key: "customer.version", Value: bson.D{{Key: "$lt", Value: after.Version}}}},
						bson.D{{Key: "$set", Value: bson.D{{Key: "customer.name", Value: buyer(i)}, {Key: "customer.version", Value: after.Version}}}})
				}
				return err
			})
		})
		c.because("extref.Reference", "It encodes the whole source by the user's own codecs, as a call of any type must, and looks four fields up in it; the encoding alone takes as long as the line by hand, which names its fields in Go.")
		c.because("extref.Update of what is not copied", "It looks through the operators for copied fields, and is a findAndModify, whose answer brings the version; the client takes as long as by hand, the server some more.")
		c.because("extref.Update with 10 copies", "The filter says also that the update changes a value and that the version can be raised, the writes ask for the shape of the copies, and a second statement of the same command counts what could not be brought up to date.")
	}
	{
		people, tasks := db.Collection("people"), db.Collection("tasks")
		listed, err := relation.New[int, int, course](people, tasks, &relation.Options{ChildrenField: "tasks"})
		if err != nil {
			return err
		}
		owned, err := relation.New[int, int, course](people, tasks, &relation.Options{OwnerField: "owner"})
		if err != nil {
			return err
		}
		err = errors.Join(listed.EnsureIndexes(ctx), owned.EnsureIndexes(ctx),
			fill(ctx, tasks, 500, func(i int) any { return d("_id", i, "title", "t", "text", text, "owner", i%20) }),
			fill(ctx, people, 100, func(i int) any {
				ids := bson.A{}
				for n := range 20 {
					ids = append(ids, (i*7+n*3)%500)
				}
				return d("_id", i, "tasks", ids)
			}))
		if err != nil {
			return err
		}
		c.add("relation.Children, 20 children", func(ctx context.Context, i int) error {
			joined, err := listed.Children(ctx, 50+i%50, nil)
			return errors.Join(err, want(len(joined.Items), 20))
		}, func(ctx context.Context, i int) error {
			var parent struct{ Tasks []int }
			if err := people.FindOne(ctx, bson.D{{Key: "_id", Value: 50 + i%50}}, options.FindOne().SetProjection(bson.D{{Key: "tasks", Value: 1}})).Decode(&parent); err != nil {
				return err
			}
			return inOrder(ctx, tasks, parent.Tasks)
		})
		c.add("relation.First, 20 children", func(ctx context.Context, i int) error {
			items, err := owned.First(ctx, i%20, 20, nil)
			return errors.Join(err, want(len(items), 20))
		}, func(ctx context.Context, i int) error {
			_, err := findAll[course](ctx, 20, tasks, bson.D{{Key: "owner", Value: i % 20}}, options.Find().SetSort(bson.D{{Key: "_id", Value: -1}}).SetLimit(20))
			return err
		})
		c.add("relation.Fetch, 20 IDs", func(ctx context.Context, i int) error {
			ids := make([]int, 20)
			for n := range ids {
				ids[n] = (i + n) % 500
			}
			joined, err := relation.Fetch[int, course](ctx, tasks, ids, nil)
			return errors.Join(err, want(len(joined.Items), 20))
		}, func(ctx context.Context, i int) error {
			ids := make([]int, 20)
			for n := range ids {
				ids[n] = (i + n) % 500
			}
			return inOrder(ctx, tasks, ids)
		})
		c.add("relation.Link", func(ctx context.Context, i int) error {
			return listed.Link(ctx, i%25, 1000+i)
		}, func(ctx context.Context, i int) error {
			_, err := people.UpdateOne(ctx, bson.D{{Key: "_id", Value: 25 + i%25}, {Key: "tasks.9999", Value: bson.D{{Key: "$exists", Value: false}}}},
				bson.D{{Key: "$addToSet", Value: bson.D{{Key: "tasks", Value: 1000 + i}}}})
			return err
		})
		c.add("relation.Has", func(ctx context.Context, i int) error {
			_, err := listed.Has(ctx, 50+i%50, i%500)
			return err
		}, func(ctx context.Context, i int) error {
			err := people.FindOne(ctx, bson.D{{Key: "_id", Value: 50 + i%50}, {Key: "tasks", Value: i % 500}},
				options.FindOne().SetProjection(bson.D{{Key: "_id", Value: 1}})).Err()
			if errors.Is(err, mongo.ErrNoDocuments) {
				return nil
			}
			return err
		})
		c.because("relation.Children, 20 children", "Each ID is told from the others by its BSON value, whatever its type is; by hand it is an int, the key of a map.")
		c.because("relation.Link", "The filter asks also that the list is not null.")
		c.because("relation.Insert", "By hand the write that keeps the parent from being deleted leaves a counter in it. The package leaves nothing: it sets a field and unsets it, two updates in one command.")
		c.add("relation.Insert", func(ctx context.Context, i int) error {
			_, err := owned.Insert(ctx, i%20, course{1000 + 2*i, "t", text})
			return err
		}, func(ctx context.Context, i int) error {
			return byHand(ctx, c.client, func(ctx context.Context) error {
				result, err := people.UpdateOne(ctx, bson.D{{Key: "_id", Value: i % 20}}, bson.D{{Key: "$inc", Value: bson.D{{Key: "messages", Value: 1}}}})
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
		})
	}
	{
		coll := db.Collection("ancestors")
		t, err := tree.New[int, node](coll, tree.AncestorArray, &tree.Options{ChildCountField: "children"}) // as by hand
		if err != nil {
			return err
		}
		paths := db.Collection("path")
		p, err := tree.New[int, node](paths, tree.MaterializedPath, nil)
		if err != nil {
			return err
		}
		for _, t := range []*tree.Tree[int, node]{t, p} {
			if err := t.EnsureIndexes(ctx); err != nil {
				return err
			}
			_, err = t.Load(ctx, func(yield func(tree.Entry[int, node], error) bool) {
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
			}, t.AsRoot(), nil)
			if err != nil {
				return err
			}
		}
		c.add("tree.Ancestors, array", func(ctx context.Context, i int) error { _, err := t.Ancestors(ctx, 100+i%300); return err }, func(ctx context.Context, i int) error {
			found, err := aggregate[struct {
				Ancestors []int  `bson:"ancestors"`
				Nodes     []node `bson:"nodes"`
			}](ctx, 1, coll, bson.D{{Key: "$match", Value: bson.D{{Key: "_id", Value: 100 + i%300}}}}, bson.D{{Key: "$lookup", Value: bson.D{
				{Key: "from", Value: "ancestors"}, {Key: "localField", Value: "ancestors"}, {Key: "foreignField", Value: "_id"}, {Key: "as", Value: "nodes"}}}})
			if err != nil {
				return err
			}
			slices.SortFunc(found[0].Nodes, func(a, b node) int {
				return slices.Index(found[0].Ancestors, a.ID) - slices.Index(found[0].Ancestors, b.ID)
			})
			return nil
		})
		c.because("tree.Ancestors, array", "The server unwinds and sorts the ancestors: sent by hand, the same stages take as long. By hand all come in one document, which 16 MB bound.")
		c.add("tree.Ancestors, path", func(ctx context.Context, i int) error { _, err := p.Ancestors(ctx, 100+i%300); return err }, func(ctx context.Context, i int) error {
			at, err := findOne[struct{ Path string }](ctx, paths, bson.D{{Key: "_id", Value: 100 + i%300}})
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
			found, err := findAll[node](ctx, len(ids), paths, bson.D{{Key: "_id", Value: bson.D{{Key: "$in", Value: ids}}}})
			slices.SortFunc(found, func(a, b node) int { return slices.Index(ids, a.ID) - slices.Index(ids, b.ID) })
			return err
		})
		c.add("tree.Children", func(ctx context.Context, i int) error { return drain(t.Children(ctx, i%90)) }, func(ctx context.Context, i int) error {
			_, err := findAll[node](ctx, 4, coll, bson.D{{Key: "parent", Value: i % 90}})
			return err
		})
		c.add("tree.Descendants, array", func(ctx context.Context, i int) error { return drain(t.Descendants(ctx, 1+i%4, 0)) }, func(ctx context.Context, i int) error {
			_, err := findAll[node](ctx, -1, coll, bson.D{{Key: "ancestors", Value: 1 + i%4}})
			return err
		})
		c.add("tree.Subtree, array", func(ctx context.Context, i int) error {
			_, err := t.Subtree(ctx, 1+i%4, 0)
			return err
		}, func(ctx context.Context, i int) error {
			type nested struct {
				ID       int    `bson:"_id"`
				Name     string `bson:"name"`
				Parent   int    `bson:"parent"`
				children []*nested
			}
			found, err := findAll[nested](ctx, -1, coll, bson.D{{Key: "$or", Value: bson.A{bson.D{{Key: "_id", Value: 1 + i%4}}, bson.D{{Key: "ancestors", Value: 1 + i%4}}}}})
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
		})
		c.because("tree.Subtree, array", "IDs and parents of any type become keys of a map, and each node is a value of its own, where by hand they are int and all in one slice.")
		c.because("tree.Insert, array", "The ID and the fields of the tree are taken out of the encoded document, and the parent's array is checked. Both sides count the children.")
		c.add("tree.Insert, array", func(ctx context.Context, i int) error {
			_, err := t.Insert(ctx, node{1000 + 2*i, "n"}, t.Under(300+i%100))
			return err
		}, func(ctx context.Context, i int) error {
			return byHand(ctx, c.client, func(ctx context.Context) error {
				var parent struct{ Ancestors []int }
				err := coll.FindOneAndUpdate(ctx, bson.D{{Key: "_id", Value: 300 + i%100}}, bson.D{{Key: "$inc", Value: bson.D{{Key: "children", Value: 1}}}},
					options.FindOneAndUpdate().SetProjection(bson.D{{Key: "ancestors", Value: 1}})).Decode(&parent)
				if err == nil {
					_, err = coll.InsertOne(ctx, struct {
						Node      node  `bson:",inline"`
						Ancestors []int `bson:"ancestors"`
						Parent    int   `bson:"parent"`
					}{node{1001 + 2*i, "n"}, append(parent.Ancestors, 300+i%100), 300 + i%100})
				}
				return err
			})
		})
	}
	return nil
}

func overheadTimes(c *calls, db *mongo.Database) error {
	ctx := c.ctx
	text := prose(c.rand, 400)
	start := time.Date(2019, 1, 31, 0, 0, 0, 0, time.UTC)
	{
		coll := db.Collection("bucket")
		bk, err := bucket.New[int, degrees](coll, timeseries.Every(time.Hour), &bucket.Options{
			CountField: "count", Values: []timeseries.Value{{Field: "temperature", Sum: "sum", Min: "min", Max: "max"}},
		})
		if err != nil {
			return err
		}
		if err := bk.EnsureIndexes(ctx); err != nil {
			return err
		}
		at := func(n int) degrees { return degrees{start.Add(time.Duration(n) * time.Minute), 20.5} }
		_, err = bk.AppendMany(ctx, func(yield func(int, degrees) bool) {
			for n := range 1440 {
				if !yield(-1, at(n)) {
					return
				}
			}
		}, nil)
		if err != nil {
			return err
		}
		day := bson.D{{Key: "series", Value: -1}, {Key: "start", Value: bson.D{{Key: "$gte", Value: start}, {Key: "$lt", Value: start.AddDate(0, 0, 1)}}}}
		c.add("bucket.Append", func(ctx context.Context, i int) error {
			_, err := bk.Append(ctx, 0, at(i))
			return err
		}, func(ctx context.Context, i int) error {
			m := at(i)
			hour := m.At.Truncate(time.Hour)
			_, err := coll.UpdateOne(ctx, bson.D{{Key: "_id", Value: bson.D{{Key: "series", Value: 1}, {Key: "start", Value: hour}, {Key: "n", Value: 0}}},
				{Key: "series", Value: 1}, {Key: "start", Value: hour}, {Key: "count", Value: bson.D{{Key: "$lt", Value: 1000}}}},
				bson.D{{Key: "$push", Value: bson.D{{Key: "measurements", Value: m}}}, {Key: "$inc", Value: bson.D{{Key: "count", Value: 1}, {Key: "sum", Value: m.Temp}}},
					{Key: "$min", Value: bson.D{{Key: "min", Value: m.Temp}}}, {Key: "$max", Value: bson.D{{Key: "max", Value: m.Temp}}}},
				options.UpdateOne().SetUpsert(true))
			return err
		})
		c.add("bucket.AppendMany, 60 of a series", func(ctx context.Context, i int) error {
			readings := make([]degrees, 60)
			for n := range readings {
				readings[n] = at(n)
			}
			_, err := bk.AppendMany(ctx, timeseries.Of(10+2*i, readings...), nil)
			return err
		}, func(ctx context.Context, i int) error {
			readings := make([]degrees, 60)
			for n := range readings {
				readings[n] = at(n)
			}
			sum, low, high := 0.0, math.Inf(1), math.Inf(-1)
			for _, m := range readings {
				sum, low, high = sum+m.Temp, min(low, m.Temp), max(high, m.Temp)
			}
			_, err := coll.UpdateOne(ctx, bson.D{{Key: "_id", Value: bson.D{{Key: "series", Value: 11 + 2*i}, {Key: "start", Value: start}, {Key: "n", Value: 0}}},
				{Key: "series", Value: 11 + 2*i}, {Key: "start", Value: start}, {Key: "count", Value: bson.D{{Key: "$lte", Value: 940}}}},
				bson.D{{Key: "$push", Value: bson.D{{Key: "measurements", Value: bson.D{{Key: "$each", Value: readings}}}}}, {Key: "$inc", Value: bson.D{{Key: "count", Value: 60}, {Key: "sum", Value: sum}}},
					{Key: "$min", Value: bson.D{{Key: "min", Value: low}}}, {Key: "$max", Value: bson.D{{Key: "max", Value: high}}}},
				options.UpdateOne().SetUpsert(true))
			return err
		})
		c.add("bucket.Range, a day", func(ctx context.Context, i int) error {
			return drain(bk.Range(ctx, -1, start, start.AddDate(0, 0, 1)))
		}, func(ctx context.Context, i int) error {
			found, err := findAll[struct{ Measurements []degrees }](ctx, 24, coll, day, options.Find().SetSort(bson.D{{Key: "start", Value: 1}}).SetProjection(bson.D{{Key: "measurements", Value: 1}}))
			for _, b := range found {
				slices.SortStableFunc(b.Measurements, func(x, y degrees) int { return x.At.Compare(y.At) })
			}
			return err
		})
		c.add("bucket.Aggregate, a day", func(ctx context.Context, i int) error {
			_, err := bk.Aggregate(ctx, -1, start, start.AddDate(0, 0, 1))
			return err
		}, func(ctx context.Context, i int) error {
			_, err := aggregate[struct {
				Count         int64
				Sum, Min, Max float64
			}](ctx, 1, coll, bson.D{{Key: "$match", Value: day}}, bson.D{{Key: "$group", Value: bson.D{{Key: "_id", Value: nil},
				{Key: "count", Value: bson.D{{Key: "$sum", Value: "$count"}}}, {Key: "sum", Value: bson.D{{Key: "$sum", Value: "$sum"}}},
				{Key: "min", Value: bson.D{{Key: "$min", Value: "$min"}}}, {Key: "max", Value: bson.D{{Key: "$max", Value: "$max"}}}}}})
			return err
		})
		c.because("bucket.AppendMany, 60 of a series", "It encodes each measurement by itself, to know its time, numbers and bytes before it chooses the buckets.")
		c.because("bucket.Append", "It checks the measurement, and its filter that the bucket has room, which it remembers.")
		c.because("bucket.Range, a day", "Late measurements go to their place, so it reads the time of each before it decodes them. Checking the order after the decode, as by hand, needs to know the struct.")
	}
	{
		coll := db.Collection("paging")
		pager, err := paging.New[order](coll, d("total", -1), nil)
		if err != nil {
			return err
		}
		err = errors.Join(pager.EnsureIndexes(ctx),
			fill(ctx, coll, 2000, func(i int) any {
				return order{ID: i, CustomerID: i, Total: i % 100, Customer: customer{ID: i, Notes: text}}
			}))
		if err != nil {
			return err
		}
		first, err := pager.Page(ctx, nil, paging.Request{Size: 20})
		if err != nil {
			return err
		}
		c.add("paging.Page, first", func(ctx context.Context, i int) error {
			_, err := pager.Page(ctx, nil, paging.Request{Size: 20})
			return err
		}, func(ctx context.Context, i int) error {
			_, err := findAll[order](ctx, 21, coll, bson.D{}, options.Find().SetSort(bson.D{{Key: "total", Value: -1}, {Key: "_id", Value: -1}}).SetLimit(21).SetBatchSize(22))
			return err
		})
		c.add("paging.Page, after", func(ctx context.Context, i int) error {
			_, err := pager.Page(ctx, nil, paging.Request{Size: 20, After: first.Next})
			return err
		}, func(ctx context.Context, i int) error {
			last := first.Items[19]
			_, err := findAll[order](ctx, 21, coll, bson.D{{Key: "$or", Value: bson.A{
				bson.D{{Key: "total", Value: last.Total}, {Key: "_id", Value: bson.D{{Key: "$lt", Value: last.ID}}}},
				bson.D{{Key: "total", Value: bson.D{{Key: "$lt", Value: last.Total}}}},
			}}}, options.Find().SetSort(bson.D{{Key: "total", Value: -1}, {Key: "_id", Value: -1}}).SetLimit(21).SetBatchSize(22))
			return err
		})
	}
	{
		current, revisions := db.Collection("policies"), db.Collection("policy_revisions")
		v, err := versioning.New[string, policy](current, revisions, nil)
		if err != nil {
			return err
		}
		small := policyOf(0)
		small.Items = small.Items[:5]
		if err := v.EnsureIndexes(ctx); err != nil {
			return err
		}
		var held []versioning.Revision[policy]
		for i := range 20 {
			small.ID = fmt.Sprint(i)
			r, err := v.Create(ctx, small, versioning.Change{Author: "elrond"})
			if err != nil {
				return err
			}
			held = append(held, r)
		}
		read := make([]versioned, 10)
		for i := range read {
			if read[i], err = findOne[versioned](ctx, current, d("_id", fmt.Sprint(10+i))); err != nil {
				return err
			}
		}
		c.add("versioning.Get", func(ctx context.Context, i int) error {
			_, err := v.Get(ctx, held[i%20].Document.ID)
			return err
		}, func(ctx context.Context, i int) error {
			_, err := findOne[versioned](ctx, current, bson.D{{Key: "_id", Value: strconv.Itoa(i % 20)}})
			return err
		})
		c.add("versioning.Save", func(ctx context.Context, i int) error {
			r := held[i%10]
			r.Document.Premium = i + 1
			r, err := v.Save(ctx, r, versioning.Change{Author: "elrond"})
			held[i%10] = r
			return err
		}, func(ctx context.Context, i int) error {
			r := &read[i%10]
			r.Policy.Premium = i + 1
			change := bson.D{{Key: "at", Value: time.Now()}, {Key: "author", Value: "elrond"}}
			err := byHand(ctx, c.client, func(ctx context.Context) error {
				before, err := current.FindOneAndUpdate(ctx, bson.D{{Key: "_id", Value: r.Policy.ID}, {Key: "revision", Value: r.Revision}},
					bson.D{{Key: "$set", Value: bson.D{{Key: "name", Value: r.Policy.Name}, {Key: "premium", Value: r.Policy.Premium}, {Key: "items", Value: r.Policy.Items},
						{Key: "revision", Value: r.Revision + 1}, {Key: "change", Value: change}}}}).Raw()
				if err == nil {
					_, err = revisions.InsertOne(ctx, bson.D{{Key: "document_id", Value: r.Policy.ID}, {Key: "revision", Value: r.Revision}, {Key: "document", Value: before}})
				}
				return err
			})
			r.Revision++
			return err
		})
	}
	{
		coll := db.Collection("contacts")
		v, err := schemaversion.New[contact](coll, []schemaversion.Step{{Up: func(doc bson.D) (bson.D, error) { return doc, nil }}}, nil)
		if err != nil {
			return err
		}
		one := func(i int) contact { return contact{i, "Anakin", []method{{"home", "503"}}, text, 2} }
		if err := fill(ctx, coll, 200, func(i int) any { return one(i) }); err != nil {
			return err
		}
		c.add("schemaversion.Get", func(ctx context.Context, i int) error {
			_, err := v.Get(ctx, i%200)
			return err
		}, func(ctx context.Context, i int) error {
			_, err := findOne[contact](ctx, coll, bson.D{{Key: "_id", Value: i % 200}})
			return err
		})
		c.add("schemaversion.Find, 100", func(ctx context.Context, i int) error {
			return drain(v.Find(ctx, d("_id", d("$lt", 100))))
		}, func(ctx context.Context, i int) error {
			return decodeEach[contact](ctx, coll, bson.D{{Key: "_id", Value: bson.D{{Key: "$lt", Value: 100}}}})
		})
		c.add("schemaversion.Insert", func(ctx context.Context, i int) error {
			_, err := v.Insert(ctx, one(1000+2*i))
			return err
		}, func(ctx context.Context, i int) error {
			_, err := coll.InsertOne(ctx, one(1001+2*i))
			return err
		})
		c.add("schemaversion.Update", func(ctx context.Context, i int) error {
			return v.Update(ctx, 100+i%50, d("$set", d("name", buyer(i))))
		}, func(ctx context.Context, i int) error {
			_, err := coll.UpdateOne(ctx, bson.D{{Key: "_id", Value: 150 + i%50}, {Key: "schema_version", Value: 2}}, bson.D{{Key: "$set", Value: bson.D{{Key: "name", Value: buyer(i)}}}})
			return err
		})
	}
	return nil
}

func overheadValues(c *calls, db *mongo.Database) error {
	ctx := c.ctx
	{
		sources, targets := db.Collection("screenings"), db.Collection("films")
		sum := d("$group", d("_id", "$film", "viewers", d("$sum", "$viewers")))
		type film struct {
			ID      int `bson:"_id"`
			Viewers int `bson:"viewers"`
		}
		k, err := computed.New[int, int, film](sources, targets, "film", mongo.Pipeline{sum}, d("viewers", 0), &computed.Options{Additive: true})
		if err != nil {
			return err
		}
		err = errors.Join(k.EnsureIndexes(ctx),
			fill(ctx, targets, 40, func(i int) any { return d("_id", i) }),
			fill(ctx, sources, 1000, func(i int) any { return d("_id", i, "film", i%40, "viewers", i) }))
		if err != nil {
			return err
		}
		if _, err := k.Adopt(ctx, nil); err != nil {
			return err
		}
		c.add("computed.Get", func(ctx context.Context, i int) error {
			_, err := k.Get(ctx, i%20, time.Hour)
			return err
		}, func(ctx context.Context, i int) error {
			_, err := findOne[struct {
				Film     film `bson:",inline"`
				Computed struct {
					At    time.Time
					Dirty bool
				}
			}](ctx, targets, bson.D{{Key: "_id", Value: i % 20}})
			return err
		})
		c.because("computed.Change, additive", "By hand the difference is known. The package does not know what the callback writes: it runs the pipeline over the sources before and after it, two round trips more.")
		c.add("computed.Change, additive", func(ctx context.Context, i int) error {
			return k.Change(ctx, []int{i % 1000 / 40 * 40}, func(ctx context.Context) error {
				_, err := sources.UpdateOne(ctx, bson.D{{Key: "_id", Value: i % 1000 / 40 * 40}}, bson.D{{Key: "$inc", Value: bson.D{{Key: "viewers", Value: 1}}}})
				return err
			})
		}, func(ctx context.Context, i int) error {
			return byHand(ctx, c.client, func(ctx context.Context) error {
				_, err := sources.UpdateOne(ctx, bson.D{{Key: "_id", Value: i%1000/40*40 + 1}}, bson.D{{Key: "$inc", Value: bson.D{{Key: "viewers", Value: 1}}}})
				if err == nil {
					_, err = targets.UpdateOne(ctx, bson.D{{Key: "_id", Value: 1}}, bson.D{{Key: "$inc", Value: bson.D{{Key: "viewers", Value: 1}}}, {Key: "$currentDate", Value: bson.D{{Key: "computed.at", Value: true}}}})
				}
				return err
			})
		})
		c.because("computed.Mark", "Its update is a pipeline, so that a target whose state field is null can be marked too; the server takes longer for one than for $set and $inc.")
		c.add("computed.Mark", func(ctx context.Context, i int) error { return k.Mark(ctx, 20+i%10) }, func(ctx context.Context, i int) error {
			_, err := targets.UpdateOne(ctx, bson.D{{Key: "_id", Value: 30 + i%10}}, bson.D{{Key: "$set", Value: bson.D{{Key: "computed.dirty", Value: true}}}, {Key: "$inc", Value: bson.D{{Key: "computed.epoch", Value: 1}}}})
			return err
		})
	}
	{
		coll := db.Collection("views")
		a, err := approx.New[string](coll, &approx.Options{Every: 1_000_000})
		if err != nil {
			return err
		}
		each, err := approx.New[string](coll, &approx.Options{Every: 1})
		if err != nil {
			return err
		}
		s, err := approx.NewSampled[string](coll, &approx.Options{Every: 1_000_000_000})
		if err != nil {
			return err
		}
		if err := fill(ctx, coll, 100, func(i int) any { return d("_id", buyer(i), "count", 1) }); err != nil {
			return err
		}
		var mu sync.Mutex
		waiting := map[string]int64{}
		c.because("approx.Add, 100 in memory", "The key is encoded, so that keys that are equal to the server are one, and the writes that are due are chosen by two limits more.")
		c.add("approx.Add, 100 in memory", func(ctx context.Context, i int) error {
			for n := range 100 {
				if err := a.Add(ctx, buyer(n), 1); err != nil {
					return err
				}
			}
			return nil
		}, func(ctx context.Context, i int) error {
			for n := range 100 {
				key := buyer(n)
				mu.Lock()
				waiting[key]++
				full := waiting[key] >= 1_000_000
				mu.Unlock()
				if full {
					return errors.New("too many for this case")
				}
			}
			return ctx.Err()
		})
		c.add("approx.Add, sampled, 100 not written", func(ctx context.Context, i int) error {
			for n := range 100 {
				if err := s.Add(ctx, buyer(n), 1); err != nil {
					return err
				}
			}
			return nil
		}, func(ctx context.Context, i int) error {
			for n := range 100 {
				if key := buyer(n); rand.Float64() < 1e-9 && key != "" {
					return errors.New("too many for this case")
				}
			}
			return ctx.Err()
		})
		c.add("approx.Add, written", func(ctx context.Context, i int) error { return each.Add(ctx, buyer(i%50), 1) }, func(ctx context.Context, i int) error {
			_, err := coll.UpdateOne(ctx, bson.D{{Key: "_id", Value: buyer(50 + i%50)}}, bson.D{{Key: "$inc", Value: bson.D{{Key: "count", Value: 1}}}}, options.UpdateOne().SetUpsert(true))
			return err
		})
		c.add("approx.Get", func(ctx context.Context, i int) error {
			_, err := a.Get(ctx, buyer(i%100))
			return err
		}, func(ctx context.Context, i int) error {
			out, err := findOne[struct{ Count int64 }](ctx, coll, bson.D{{Key: "_id", Value: buyer(i % 100)}}, options.FindOne().SetProjection(bson.D{{Key: "_id", Value: 0}, {Key: "count", Value: 1}}))
			mu.Lock()
			defer mu.Unlock()
			return errors.Join(err, want(int(min(out.Count+waiting[buyer(i%100)], 1)), 1))
		})
	}
	{
		grids := db.Collection("grids")
		g, err := prealloc.New[int, int](grids, nil)
		if err != nil {
			return err
		}
		for i := range 4 {
			if err := g.Create(ctx, i, nil, append(prealloc.Row("A", 100), prealloc.Row("B", 100)...)...); err != nil {
				return err
			}
		}
		c.because("prealloc.Claim and Release", "Whether a hold is over is asked of the server's clock, and whether the cell is a document, in an $expr. By hand the client's clock decides.")
		c.add("prealloc.Claim and Release", func(ctx context.Context, i int) error {
			cell := prealloc.Cell{Section: "A", Name: fmt.Sprint(1 + i%100)}
			if err := g.Claim(ctx, 0, i, cell); err != nil {
				return err
			}
			return g.Release(ctx, 0, i, cell)
		}, func(ctx context.Context, i int) error {
			cell := "cells.A." + strconv.Itoa(1+i%100)
			_, err := grids.UpdateOne(ctx, bson.D{{Key: "_id", Value: 1}, {Key: cell, Value: bson.D{{Key: "$exists", Value: true}}}, {Key: "$or", Value: bson.A{bson.D{{Key: cell + ".by", Value: nil}}, bson.D{{Key: cell + ".until", Value: bson.D{{Key: "$lte", Value: time.Now()}}}}}}},
				bson.D{{Key: "$set", Value: bson.D{{Key: cell + ".by", Value: i}}}, {Key: "$unset", Value: bson.D{{Key: cell + ".until", Value: ""}}}})
			if err != nil {
				return err
			}
			_, err = grids.UpdateOne(ctx, bson.D{{Key: "_id", Value: 1}, {Key: cell + ".by", Value: i}},
				bson.D{{Key: "$unset", Value: bson.D{{Key: cell + ".by", Value: ""}, {Key: cell + ".until", Value: ""}}}})
			return err
		})
		c.because("prealloc.Hold", "The end of the hold is set by the server's clock, which only an update by a pipeline can; the server takes longer for one than for $set, the more cells the grid has.")
		c.add("prealloc.Hold", func(ctx context.Context, i int) error {
			return g.Hold(ctx, 2, 7, time.Minute, prealloc.Cell{Section: "A", Name: fmt.Sprint(1 + i%100)})
		}, func(ctx context.Context, i int) error {
			cell := "cells.B." + strconv.Itoa(1+i%100)
			_, err := grids.UpdateOne(ctx, bson.D{{Key: "_id", Value: 2}, {Key: cell, Value: bson.D{{Key: "$exists", Value: true}}}, {Key: "$or", Value: bson.A{bson.D{{Key: cell + ".by", Value: nil}}, bson.D{{Key: cell + ".by", Value: 7}}, bson.D{{Key: cell + ".until", Value: bson.D{{Key: "$lte", Value: time.Now()}}}}}}},
				bson.D{{Key: "$set", Value: bson.D{{Key: cell + ".by", Value: 7}, {Key: cell + ".until", Value: time.Now().Add(time.Minute)}}}})
			return err
		})
		c.because("prealloc.Cells, 200", "It asks for the server's time with the grid, to tell which holds are over.")
		c.add("prealloc.Cells, 200", func(ctx context.Context, i int) error {
			_, err := g.Cells(ctx, 3)
			return err
		}, func(ctx context.Context, i int) error {
			_, err := findOne[struct {
				Cells map[string]map[string]struct {
					By    *int
					Until time.Time
				}
			}](ctx, grids, bson.D{{Key: "_id", Value: 3}})
			return err
		})
	}
	{
		coll := db.Collection("athletes")
		kinds, err := polymorphic.New([]polymorphic.Kind{
			polymorphic.Of[bowler]("bowling"), polymorphic.Of[tennisPlayer]("tennis"), polymorphic.Of[runner]("running"),
		}, &polymorphic.Options[athlete]{Field: "sport"})
		if err != nil {
			return err
		}
		err = fill(ctx, coll, 150, func(i int) any {
			raw, err := kinds.Encode(athleteOf(i))
			if err != nil {
				panic(err) // no such athlete
			}
			return raw
		})
		if err != nil {
			return err
		}
		c.add("polymorphic.Find, 100", func(ctx context.Context, i int) error {
			return drain(kinds.Find(ctx, coll, bson.D{{Key: "_id", Value: bson.D{{Key: "$lt", Value: 100}}}}))
		}, func(ctx context.Context, i int) error {
			c, err := coll.Find(ctx, bson.D{{Key: "_id", Value: bson.D{{Key: "$lt", Value: 100}}}})
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
		})
		c.because("polymorphic.Encode, inserted", "Encode returns finished bytes, which the driver then copies field by field as it inserts them. By hand the driver encodes a struct of a known type in place.")
		c.add("polymorphic.Encode, inserted", func(ctx context.Context, i int) error {
			raw, err := kinds.Encode(bowler{1000 + 2*i, "Earl Anthony", time.UnixMilli(int64(i)), 219})
			if err == nil {
				_, err = coll.InsertOne(ctx, raw)
			}
			return err
		}, func(ctx context.Context, i int) error {
			_, err := coll.InsertOne(ctx, struct {
				Sport  string `bson:"sport"`
				Bowler bowler `bson:",inline"`
			}{"bowling", bowler{1001 + 2*i, "Earl Anthony", time.UnixMilli(int64(i)), 219}})
			return err
		})
	}
	{
		coll := db.Collection("transact")
		if err := fill(ctx, coll, 20, func(i int) any { return d("_id", i) }); err != nil {
			return err
		}
		c.add("Transact, one update", func(ctx context.Context, i int) error {
			return mongopatterns.Transact(ctx, c.client, func(ctx context.Context) error {
				_, err := coll.UpdateOne(ctx, bson.D{{Key: "_id", Value: i % 10}}, bson.D{{Key: "$inc", Value: bson.D{{Key: "n", Value: 1}}}})
				return err
			})
		}, func(ctx context.Context, i int) error {
			return byHand(ctx, c.client, func(ctx context.Context) error {
				_, err := coll.UpdateOne(ctx, bson.D{{Key: "_id", Value: 10 + i%10}}, bson.D{{Key: "$inc", Value: bson.D{{Key: "n", Value: 1}}}})
				return err
			})
		})
	}
	return nil
}

// drain reads all of a sequence.
func drain[T any](seq iter.Seq2[T, error]) error {
	for _, err := range seq {
		if err != nil {
			return err
		}
	}
	return nil
}

// decodeEach reads documents one by one.
func decodeEach[T any](ctx context.Context, coll *mongo.Collection, filter any) error {
	c, err := coll.Find(ctx, filter)
	if err != nil {
		return err
	}
	defer c.Close(ctx)
	for c.Next(ctx) {
		var doc T
		if err := c.Decode(&doc); err != nil {
			return err
		}
	}
	return c.Err()
}

// inOrder reads courses and puts them in the order of ids.
func inOrder(ctx context.Context, coll *mongo.Collection, ids []int) error {
	found, err := findAll[course](ctx, len(ids), coll, bson.D{{Key: "_id", Value: bson.D{{Key: "$in", Value: ids}}}})
	byID := make(map[int]*course, len(found))
	for i := range found {
		byID[found[i].ID] = &found[i]
	}
	sorted := make([]course, len(ids))
	for i, id := range ids {
		if byID[id] != nil {
			sorted[i] = *byID[id]
		}
	}
	return err
}

// byHand is a transaction as the driver's manual writes it.
func byHand(ctx context.Context, client *mongo.Client, fn func(ctx context.Context) error) error {
	session, err := client.StartSession()
	if err != nil {
		return err
	}
	defer session.EndSession(ctx)
	_, err = session.WithTransaction(ctx, func(ctx context.Context) (any, error) { return nil, fn(ctx) },
		options.Transaction().SetReadConcern(readconcern.Snapshot()).SetWriteConcern(writeconcern.Majority()).SetReadPreference(readpref.Primary()))
	return err
}

// hotCalls are all calls, each group on collections of its own.
func hotCalls(ctx context.Context, b *bench) (*calls, error) {
	c := &calls{bench: b, ctx: ctx}
	for _, add := range []func(c *calls, db *mongo.Database) error{overheadSets, overheadReferences, overheadTimes, overheadValues} {
		if err := add(c, b.db()); err != nil {
			return nil, err
		}
	}
	for name := range c.reasons {
		if !slices.ContainsFunc(c.all, func(one call) bool { return one.name == name }) {
			return nil, fmt.Errorf("a reason for %s, which is no call", name)
		}
	}
	return c, nil
}

func overhead(ctx context.Context, b *bench) error {
	calls, err := hotCalls(ctx, b)
	if err != nil {
		return err
	}
	// Many short runs that take turns tell more than a few long ones: what disturbs the
	// machine disturbs both sides.
	ops := b.size(5, 25, 50)
	b.runs *= 3
	for i, c := range calls.all {
		// The first calls make connections, sessions and what is kept of types.
		for n := range 3 {
			if err := errors.Join(c.hand(ctx, n), c.pack(ctx, n)); err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
		}
		after := func(op func(ctx context.Context, i int) error) func(ctx context.Context) error {
			return times(ops, func(ctx context.Context, i int) error { return op(ctx, 3+i) })
		}
		if err := b.measure(ctx, c.name, ops, side{name: "by hand", run: after(c.hand)}, side{name: "package", run: after(c.pack)}); err != nil {
			return err
		}
		b.goal(c.name+": time", "package", 1.05)
		b.goal(c.name+": allocations", "package", 1.1)
		for _, metric := range []string{": time", ": allocations"} {
			b.because(c.name+metric, "package", calls.reasons[c.name])
		}
		b.progress(i+1, len(calls.all))
	}
	// The worst first.
	worst := map[string]float64{}
	for _, r := range b.results {
		if name, kind, _ := strings.Cut(r.Metric, ": "); kind == "time" {
			worst[name] = r.Ratio
		}
	}
	slices.SortStableFunc(b.results, func(x, y result) int {
		a, _, _ := strings.Cut(x.Metric, ": ")
		b, _, _ := strings.Cut(y.Metric, ": ")
		return cmp.Or(cmp.Compare(worst[b], worst[a]), cmp.Compare(a, b))
	})
	return nil
}
