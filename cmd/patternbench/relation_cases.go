package main

import (
	"context"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/relation"
)

var relationCases = []benchmark{
	{"relation", "courses", "Students with 20 of the courses each, as references that are read in two round trips, against courses embedded in each student, $lookup and one query a course.", relationCourses},
	{"relation", "messages", "Hosts and their messages: the newest 20 by the owner in each message, against $lookup and against all of them in the host.", relationMessages},
}

const coursesEach = 20

type course struct {
	ID    int    `bson:"_id"`
	Title string `bson:"title"`
	Text  string `bson:"text"`
}

func relationCourses(ctx context.Context, b *bench) error {
	n, m, ops := b.size(500, 2000, 5000), b.size(200, 500, 1000), b.size(60, 300, 500)
	m = max(m, coursesEach)
	db := b.db()
	students, courses, embedded := db.Collection("students"), db.Collection("courses"), db.Collection("embedded")
	rel, err := relation.New[int, int, course](students, courses, &relation.Options{ChildrenField: "courses"})
	if err != nil {
		return err
	}
	if err := rel.EnsureIndexes(ctx); err != nil {
		return err
	}
	text := prose(b.rand, 1500)
	offer := func(i int) course { return course{i, "Course " + text[i%1000:i%1000+10], text[i%400 : i%400+1000]} }
	takes := func(i int) []int {
		ids := make([]int, coursesEach)
		for k := range ids {
			ids[k] = (i*7 + k*k) % m
			for j := 0; j < k; j++ {
				if ids[j] == ids[k] { // each once
					ids[k], j = (ids[k]+1)%m, -1
				}
			}
		}
		return ids
	}
	if err := fill(ctx, courses, m, func(i int) any { return offer(i) }); err != nil {
		return err
	}
	if err := fill(ctx, students, n, func(i int) any { return d("_id", i, "name", "Ann", "courses", takes(i)) }); err != nil {
		return err
	}
	if err := index(ctx, embedded, d("courses._id", 1)); err != nil {
		return err
	}
	err = fill(ctx, embedded, n, func(i int) any {
		all := bson.A{}
		for _, c := range takes(i) {
			all = append(all, offer(c))
		}
		return d("_id", i, "name", "Ann", "courses", all)
	})
	if err != nil {
		return err
	}
	err = dataSizes(ctx, b, "documents",
		sized{"embedded", []*mongo.Collection{embedded}},
		sized{"relation", []*mongo.Collection{students, courses}})
	if err != nil {
		return err
	}

	type student struct {
		ID      int      `bson:"_id"`
		Courses []course `bson:"courses"`
	}
	lookup := mongo.Pipeline{d("$lookup", d("from", courses.Name(), "localField", "courses", "foreignField", "_id", "as", "courses"))}
	err = b.measure(ctx, "page of a student with 20 courses", ops,
		side{name: "embedded", run: times(ops, func(ctx context.Context, i int) error {
			s, err := findOne[student](ctx, embedded, d("_id", i%n))
			if err != nil {
				return err
			}
			return want(len(s.Courses), coursesEach)
		})},
		side{name: "$lookup, unordered", run: times(ops, func(ctx context.Context, i int) error {
			s, err := aggregate[student](ctx, 1, students, append(mongo.Pipeline{d("$match", d("_id", i%n))}, lookup...)...)
			if err != nil {
				return err
			}
			return want(len(s[0].Courses), coursesEach)
		})},
		side{name: "one query a course", run: times(ops, func(ctx context.Context, i int) error {
			s, err := findOne[struct{ Courses []int }](ctx, students, d("_id", i%n))
			for _, id := range s.Courses {
				if err == nil {
					_, err = findOne[course](ctx, courses, d("_id", id))
				}
			}
			return err
		})},
		side{name: "relation", run: times(ops, func(ctx context.Context, i int) error {
			joined, err := rel.Children(ctx, i%n, nil)
			if err != nil {
				return err
			}
			return want(len(joined.Items), coursesEach)
		})})
	if err != nil {
		return err
	}
	few := min(20, n)
	lists := ops/10 + 1
	from := func(i int) bson.D { return d("_id", d("$gte", i*few%n, "$lt", i*few%n+few)) }
	err = b.measure(ctx, "20 students with the titles of their 20 courses", lists,
		side{name: "embedded, projection", run: times(lists, func(ctx context.Context, i int) error {
			_, err := findAll[student](ctx, -1, embedded, from(i), options.Find().SetProjection(d("courses.title", 1)))
			return err
		})},
		side{name: "$lookup, unordered", run: times(lists, func(ctx context.Context, i int) error {
			_, err := aggregate[student](ctx, -1, students, d("$match", from(i)),
				d("$lookup", d("from", courses.Name(), "localField", "courses", "foreignField", "_id", "as", "courses", "pipeline", mongo.Pipeline{d("$project", d("title", 1))})))
			return err
		})},
		side{name: "relation", run: times(lists, func(ctx context.Context, i int) error {
			ids := make([]int, few)
			for k := range ids {
				ids[k] = i*few%n + k
			}
			_, err := rel.ChildrenOf(ctx, ids, d("title", 1))
			return err
		})})
	if err != nil {
		return err
	}
	changes := b.size(10, 20, 40)
	return b.measure(ctx, "change of a course", changes,
		side{name: "embedded", run: times(changes, func(ctx context.Context, i int) error {
			_, err := embedded.UpdateMany(ctx, d("courses._id", i%m), d("$set", d("courses.$.title", text[i%1000:i%1000+17])))
			return err
		})},
		side{name: "relation", run: times(changes, func(ctx context.Context, i int) error {
			_, err := courses.UpdateOne(ctx, d("_id", i%m), d("$set", d("title", text[i%1000:i%1000+17])))
			return err
		})})
}

func relationMessages(ctx context.Context, b *bench) error {
	n, each, ops := b.size(20, 40, 100), b.size(500, 1000, 1000), b.size(100, 300, 500)
	each = max(each, 20)
	db := b.db()
	hosts, messages, embedded := db.Collection("hosts"), db.Collection("messages"), db.Collection("embedded")
	rel, err := relation.New[int, int, course](hosts, messages, &relation.Options{OwnerField: "host", Sort: d("_id", -1)})
	if err != nil {
		return err
	}
	if err := rel.EnsureIndexes(ctx); err != nil {
		return err
	}
	text := prose(b.rand, 1000)
	message := func(i int) bson.D { return d("_id", i, "title", "info", "text", text[i%800:i%800+150]) }
	if err := fill(ctx, hosts, n, func(i int) any { return d("_id", i, "name", "web") }); err != nil {
		return err
	}
	if err := fill(ctx, messages, n*each, func(i int) any { return append(message(i), bson.E{Key: "host", Value: i % n}) }); err != nil {
		return err
	}
	err = fill(ctx, embedded, n, func(i int) any {
		all := bson.A{}
		for k := range each {
			all = append(all, message(k*n+i))
		}
		return d("_id", i, "name", "web", "messages", all)
	})
	if err != nil {
		return err
	}
	type host struct {
		Messages []course `bson:"messages"`
	}
	show := func(h host, err error) error {
		if err != nil {
			return err
		}
		return want(len(h.Messages), 20)
	}
	err = b.measure(ctx, "the newest 20 messages of a host", ops,
		side{name: "embedded, $slice", run: times(ops, func(ctx context.Context, i int) error {
			return show(findOne[host](ctx, embedded, d("_id", i%n), options.FindOne().SetProjection(d("messages", d("$slice", -20)))))
		})},
		side{name: "$lookup", run: times(ops, func(ctx context.Context, i int) error {
			hs, err := aggregate[host](ctx, 1, hosts, d("$match", d("_id", i%n)),
				d("$lookup", d("from", messages.Name(), "localField", "_id", "foreignField", "host", "as", "messages",
					"pipeline", mongo.Pipeline{d("$sort", d("_id", -1)), d("$limit", 20)})))
			if err != nil {
				return err
			}
			return show(hs[0], nil)
		})},
		side{name: "relation", run: times(ops, func(ctx context.Context, i int) error {
			found, err := rel.First(ctx, i%n, 20, nil)
			if err != nil {
				return err
			}
			return want(len(found), 20)
		})})
	if err != nil {
		return err
	}
	writes := b.size(50, 100, 200)
	return b.measure(ctx, "a new message", writes,
		side{name: "embedded, $push", run: times(writes, func(ctx context.Context, i int) error {
			_, err := embedded.UpdateOne(ctx, d("_id", i%n), d("$push", d("messages", message(n*each+i))))
			return err
		})},
		side{name: "insert with the owner", run: times(writes, func(ctx context.Context, i int) error {
			_, err := messages.InsertOne(ctx, append(message(n*each+2*i), bson.E{Key: "host", Value: i % n}))
			return err
		})},
		side{name: "relation, which asks for the host", run: times(writes, func(ctx context.Context, i int) error {
			_, err := rel.Insert(ctx, i%n, course{n*each + 2*i + 1, "info", text[i%800 : i%800+150]})
			return err
		})})
}
