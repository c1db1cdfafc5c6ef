package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/approx"
	"github.com/mongopatterns/mongopatterns/computed"
	"github.com/mongopatterns/mongopatterns/polymorphic"
	"github.com/mongopatterns/mongopatterns/prealloc"
	"github.com/mongopatterns/mongopatterns/relation"
	"github.com/mongopatterns/mongopatterns/schemaversion"
)

// scene stores documents, runs a pattern on them and returns the picture. shot takes the
// documents of a collection as they are stored at that moment.
type scene func(ctx context.Context, db *mongo.Database, shot func(collection string, most int) panel) (picture, error)

// scenes are the pictures in docs/pictures, by pattern.
var scenes = map[string]scene{
	"relation": func(ctx context.Context, db *mongo.Database, shot func(string, int) panel) (picture, error) {
		people, tasks := db.Collection("people"), db.Collection("tasks")
		if err := insert(ctx, people, bson.D{{Key: "_id", Value: "Ann"}, {Key: "tasks", Value: bson.A{1, 2}}}, bson.D{{Key: "_id", Value: "Bob"}, {Key: "tasks", Value: bson.A{}}}); err != nil {
			return picture{}, err
		}
		if err := insert(ctx, tasks, bson.D{{Key: "_id", Value: 1}, {Key: "title", Value: "read"}, {Key: "owner", Value: "Ann"}}, bson.D{{Key: "_id", Value: 2}, {Key: "title", Value: "write"}, {Key: "owner", Value: "Ann"}}); err != nil {
			return picture{}, err
		}
		p := picture{title: "relation: both sides of a link change in one transaction", say: `Transfer(ctx, 2, "Bob")`,
			before: []panel{shot("people", 2), shot("tasks", 2)}}
		r, err := relation.New[string, int, bson.M](people, tasks, &relation.Options{ChildrenField: "tasks", OwnerField: "owner"})
		if err == nil {
			err = r.Transfer(ctx, 2, "Bob")
		}
		p.after = []panel{shot("people", 2), shot("tasks", 2)}
		return p, err
	},
	"computed": func(ctx context.Context, db *mongo.Database, shot func(string, int) panel) (picture, error) {
		screenings, films := db.Collection("screenings"), db.Collection("films")
		err := insert(ctx, films, bson.D{{Key: "_id", Value: "Dumbo"}, {Key: "year", Value: 2019}})
		if err != nil {
			return picture{}, err
		}
		err = insert(ctx, screenings,
			bson.D{{Key: "_id", Value: 1}, {Key: "film", Value: "Dumbo"}, {Key: "viewers", Value: 120}, {Key: "revenue", Value: 960}},
			bson.D{{Key: "_id", Value: 2}, {Key: "film", Value: "Dumbo"}, {Key: "viewers", Value: 80}, {Key: "revenue", Value: 640}})
		if err != nil {
			return picture{}, err
		}
		p := picture{title: "computed: a sum over many documents, kept with the one that shows it", say: "Refresh, or with each write of a screening",
			before: []panel{shot("screenings", 2), shot("films", 1)}}
		c, err := computed.New[int, string, bson.M](screenings, films, computed.Rule{
			KeyField: "film",
			Pipeline: mongo.Pipeline{{{Key: "$group", Value: bson.D{{Key: "_id", Value: "$film"}, {Key: "viewers", Value: bson.M{"$sum": "$viewers"}}, {Key: "revenue", Value: bson.M{"$sum": "$revenue"}}}}}},
			Empty:    bson.D{{Key: "viewers", Value: 0}, {Key: "revenue", Value: 0}},
		}, nil)
		if err == nil {
			_, err = c.Refresh(ctx, "Dumbo")
		}
		if err == nil { // a picture that is the same each time
			_, err = films.UpdateByID(ctx, "Dumbo", bson.M{"$set": bson.M{"computed.at": time.Date(2019, 4, 5, 20, 0, 0, 0, time.UTC)}})
		}
		p.after = []panel{shot("films", 1)}
		return p, err
	},
	"approx": func(ctx context.Context, db *mongo.Database, shot func(string, int) panel) (picture, error) {
		pages := db.Collection("pages")
		if err := insert(ctx, pages, bson.D{{Key: "_id", Value: "/about"}, {Key: "count", Value: 700000}}); err != nil {
			return picture{}, err
		}
		p := picture{title: "approx: one write for a hundred changes", say: `100 × Add(ctx, "/about", 1): 1 write`, before: []panel{shot("pages", 1)}}
		c, err := approx.New[string](pages, nil)
		for range 100 {
			if err == nil {
				err = c.Add(ctx, "/about", 1)
			}
		}
		p.after = []panel{shot("pages", 1)}
		return p, err
	},
	"prealloc": func(ctx context.Context, db *mongo.Database, shot func(string, int) panel) (picture, error) {
		g, err := prealloc.New[string, string](db.Collection("screenings"), nil)
		if err != nil {
			return picture{}, err
		}
		err = g.Insert(ctx, "2019-04-05 20:00", bson.D{{Key: "film", Value: "Dumbo"}}, append(prealloc.Row("A", 3), prealloc.Row("B", 4)...)...)
		if err != nil {
			return picture{}, err
		}
		p := picture{title: "prealloc: cells that exist before anybody takes them", say: `Claim(ctx, id, "order 7", B2, B3): both or none`, before: []panel{shot("screenings", 1)}}
		err = g.Claim(ctx, "2019-04-05 20:00", "order 7", prealloc.Cell{Section: "B", Name: "2"}, prealloc.Cell{Section: "B", Name: "3"})
		p.after = []panel{shot("screenings", 1)}
		return p, err
	},
	"polymorphic": func(ctx context.Context, db *mongo.Database, shot func(string, int) panel) (picture, error) {
		type bowler struct {
			ID      int    `bson:"_id"`
			Name    string `bson:"name"`
			Average int    `bson:"average"`
		}
		type tennis struct {
			ID     int    `bson:"_id"`
			Name   string `bson:"name"`
			Titles bson.M `bson:"titles"`
		}
		if err := insert(ctx, db.Collection("bowlers"), bowler{1, "Earl Anthony", 219}); err != nil {
			return picture{}, err
		}
		if err := insert(ctx, db.Collection("tennis_players"), tennis{2, "Martina Navratilova", bson.M{"singles": 167}}); err != nil {
			return picture{}, err
		}
		p := picture{title: "polymorphic: documents of several kinds in one collection", say: "one query over all; a Go type for each kind",
			before: []panel{shot("bowlers", 1), shot("tennis_players", 1)}}
		kinds, err := polymorphic.New([]polymorphic.Kind{polymorphic.Of[bowler]("bowling"), polymorphic.Of[tennis]("tennis")}, &polymorphic.Options[any]{KindField: "sport"})
		for _, v := range []any{bowler{1, "Earl Anthony", 219}, tennis{2, "Martina Navratilova", bson.M{"singles": 167}}} {
			var raw bson.Raw
			if err == nil {
				raw, err = kinds.Encode(v)
			}
			if err == nil {
				err = insert(ctx, db.Collection("athletes"), raw)
			}
		}
		p.after = []panel{shot("athletes", 2)}
		return p, err
	},
	"schemaversion": func(ctx context.Context, db *mongo.Database, shot func(string, int) panel) (picture, error) {
		contacts := db.Collection("contacts")
		err := insert(ctx, contacts, bson.D{{Key: "_id", Value: 1}, {Key: "name", Value: "Darth Vader"}, {Key: "home", Value: "503-555-0100"}, {Key: "work", Value: "503-555-0110"}, {Key: "mobile", Value: "503-555-0120"}})
		if err != nil {
			return picture{}, err
		}
		p := picture{title: "schemaversion: old and new documents side by side, all read as the newest", say: "read as version 2 at once; stored so when touched, or by Migrate", before: []panel{shot("contacts", 1)}}
		v, err := schemaversion.New[bson.M](contacts, []schemaversion.Step{{Up: contactMethods}}, &schemaversion.Options{Text: true})
		if err == nil {
			_, err = v.Migrate(ctx, v.Newest(), nil)
		}
		p.after = []panel{shot("contacts", 1)}
		return p, err
	},
}

// contactMethods makes a list of the phones of a contact.
func contactMethods(doc bson.D) (out bson.D, err error) {
	methods := bson.A{}
	for _, e := range doc {
		switch e.Key {
		case "home", "work", "mobile":
			methods = append(methods, bson.D{e})
		default:
			out = append(out, e)
		}
	}
	return append(out, bson.E{Key: "contact_method", Value: methods}), nil
}

func insert(ctx context.Context, coll *mongo.Collection, docs ...any) error {
	_, err := coll.InsertMany(ctx, docs)
	return err
}

// paint writes the picture of each pattern into a folder, from documents that are stored on
// the server and read back.
func paint(ctx context.Context, client *mongo.Client, name, folder string) error {
	for pattern, run := range scenes {
		db := client.Database(name + "_" + pattern)
		var failed error
		shot := func(collection string, most int) panel {
			p := panel{collection: collection}
			cursor, err := db.Collection(collection).Find(ctx, bson.D{}, options.Find().SetSort(bson.D{{Key: "_id", Value: 1}}).SetLimit(int64(most)))
			if err == nil {
				err = cursor.All(ctx, &p.docs)
			}
			if err != nil && failed == nil {
				failed = err
			}
			return p
		}
		p, err := run(ctx, db, shot)
		if dropped := db.Drop(ctx); err == nil {
			err = dropped
		}
		if err != nil {
			return fmt.Errorf("the picture of %s: %w", pattern, err)
		}
		if err = failed; err != nil {
			return fmt.Errorf("the picture of %s: %w", pattern, err)
		}
		if err = os.WriteFile(filepath.Join(folder, pattern+".svg"), []byte(svg(p)), 0o644); err != nil {
			return fmt.Errorf("the picture of %s: %w", pattern, err)
		}
	}
	return nil
}
