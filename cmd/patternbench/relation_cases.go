package main

import (
	"cmp"
	"context"
	"slices"

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

// university is students with courses, referenced and embedded.
type university struct {
	n, m                        int // students and courses
	text                        string
	students, courses, embedded *mongo.Collection
	rel                         *relation.Relation[int, int, course]
}

func newUniversity(ctx context.Context, b *bench) *university {
	db := b.db()
	u := &university{n: b.size(500, 2000, 5000), m: max(b.size(200, 500, 1000), coursesEach), text: prose(b.rand, 1500),
		students: db.Collection("students"), courses: db.Collection("courses"), embedded: db.Collection("embedded")}
	u.rel = must(relation.New[int, int, course](u.students, u.courses, &relation.Options{ChildrenField: "courses"}))
	check(u.rel.EnsureIndexes(ctx), index(ctx, u.embedded, d("courses._id", 1)),
		fill(ctx, u.courses, u.m, func(i int) any { return u.course(i) }),
		fill(ctx, u.students, u.n, func(i int) any { return d("_id", i, "name", "Ann", "courses", u.takes(i)) }),
		fill(ctx, u.embedded, u.n, func(i int) any {
			all := bson.A{}
			for _, c := range u.takes(i) {
				all = append(all, u.course(c))
			}
			return d("_id", i, "name", "Ann", "courses", all)
		}))
	dataSizes(ctx, b, "documents", in("embedded", u.embedded), in("relation", u.students, u.courses))
	return u
}

func (u *university) course(i int) course {
	return course{i, "Course " + u.text[i%1000:i%1000+10], u.text[i%400 : i%400+1000]}
}

// takes are the courses of a student, each once.
func (u *university) takes(i int) []int {
	ids := make([]int, 0, coursesEach)
	for k := range coursesEach {
		id := (i*7 + k*k) % u.m
		for slices.Contains(ids, id) {
			id = (id + 1) % u.m
		}
		ids = append(ids, id)
	}
	return ids
}

type student struct {
	ID      int      `bson:"_id"`
	Courses []course `bson:"courses"`
}

// few is how many students a list has.
func (u *university) few() int { return min(20, u.n) }

// from selects the students of a list.
func (u *university) from(i int) bson.D {
	return d("_id", d("$gte", i*u.few()%u.n, "$lt", i*u.few()%u.n+u.few()))
}

// lookup brings the courses of students, with some stages.
func (u *university) lookup(stages ...bson.D) bson.D {
	lookup := d("from", u.courses.Name(), "localField", "courses", "foreignField", "_id", "as", "courses")
	if len(stages) > 0 {
		lookup = append(lookup, bson.E{Key: "pipeline", Value: mongo.Pipeline(stages)})
	}
	return d("$lookup", lookup)
}

func relationCourses(ctx context.Context, b *bench) []comparison {
	u, ops := newUniversity(ctx, b), b.size(60, 300, 500)
	title := func(i int) string { return u.text[i%1000 : i%1000+17] }
	return []comparison{
		compared("page of a student with 20 courses", ops,
			way("embedded", func(ctx context.Context, i int) error {
				s, err := findOne[student](ctx, u.embedded, d("_id", i%u.n))
				return cmp.Or(err, want(len(s.Courses), coursesEach))
			}),
			way("$lookup, unordered", func(ctx context.Context, i int) error {
				s, err := aggregate[student](ctx, 1, u.students, d("$match", d("_id", i%u.n)), u.lookup())
				if err != nil {
					return err
				}
				return want(len(s[0].Courses), coursesEach)
			}),
			way("one query a course", func(ctx context.Context, i int) error {
				s, err := findOne[struct{ Courses []int }](ctx, u.students, d("_id", i%u.n))
				for _, id := range s.Courses {
					if err == nil {
						_, err = findOne[course](ctx, u.courses, d("_id", id))
					}
				}
				return err
			}),
			way("relation", func(ctx context.Context, i int) error {
				joined, err := u.rel.Children(ctx, i%u.n, nil)
				return cmp.Or(err, want(len(joined.Items), coursesEach))
			})),
		compared("20 students with the titles of their 20 courses", ops/10+1,
			way("embedded, projection", func(ctx context.Context, i int) error {
				return errorOf(findAll[student](ctx, -1, u.embedded, u.from(i), options.Find().SetProjection(d("courses.title", 1))))
			}),
			way("$lookup, unordered", func(ctx context.Context, i int) error {
				return errorOf(aggregate[student](ctx, -1, u.students, d("$match", u.from(i)), u.lookup(d("$project", d("title", 1)))))
			}),
			way("relation", func(ctx context.Context, i int) error {
				ids := make([]int, u.few())
				for k := range ids {
					ids[k] = i*u.few()%u.n + k
				}
				return errorOf(u.rel.ChildrenOf(ctx, ids, d("title", 1)))
			})),
		compared("change of a course", b.size(10, 20, 40),
			way("embedded", func(ctx context.Context, i int) error {
				return errorOf(u.embedded.UpdateMany(ctx, d("courses._id", i%u.m), d("$set", d("courses.$.title", title(i)))))
			}),
			way("relation", func(ctx context.Context, i int) error {
				return errorOf(u.courses.UpdateOne(ctx, d("_id", i%u.m), d("$set", d("title", title(i)))))
			})),
	}
}

type host struct {
	Messages []course `bson:"messages"`
}

func relationMessages(ctx context.Context, b *bench) []comparison {
	n, each, ops := b.size(20, 40, 100), max(b.size(500, 1000, 1000), 20), b.size(100, 300, 500)
	db := b.db()
	hosts, messages, embedded := db.Collection("hosts"), db.Collection("messages"), db.Collection("embedded")
	rel := must(relation.New[int, int, course](hosts, messages, &relation.Options{OwnerField: "host", Sort: d("_id", -1)}))
	text := prose(b.rand, 1000)
	message := func(i int) bson.D { return d("_id", i, "title", "info", "text", text[i%800:i%800+150]) }
	owned := func(i, host int) bson.D { return append(message(i), bson.E{Key: "host", Value: host}) }
	check(rel.EnsureIndexes(ctx),
		fill(ctx, hosts, n, func(i int) any { return d("_id", i, "name", "web") }),
		fill(ctx, messages, n*each, func(i int) any { return owned(i, i%n) }),
		fill(ctx, embedded, n, func(i int) any {
			all := bson.A{}
			for k := range each {
				all = append(all, message(k*n+i))
			}
			return d("_id", i, "name", "web", "messages", all)
		}))
	return []comparison{
		compared("the newest 20 messages of a host", ops,
			way("embedded, $slice", func(ctx context.Context, i int) error {
				h, err := findOne[host](ctx, embedded, d("_id", i%n), options.FindOne().SetProjection(d("messages", d("$slice", -20))))
				return cmp.Or(err, want(len(h.Messages), 20))
			}),
			way("$lookup", func(ctx context.Context, i int) error {
				hs, err := aggregate[host](ctx, 1, hosts, d("$match", d("_id", i%n)),
					d("$lookup", d("from", messages.Name(), "localField", "_id", "foreignField", "host", "as", "messages",
						"pipeline", mongo.Pipeline{d("$sort", d("_id", -1)), d("$limit", 20)})))
				if err != nil {
					return err
				}
				return want(len(hs[0].Messages), 20)
			}),
			way("relation", func(ctx context.Context, i int) error {
				found, err := rel.First(ctx, i%n, 20, nil)
				return cmp.Or(err, want(len(found), 20))
			})),
		compared("a new message", b.size(50, 100, 200),
			way("embedded, $push", func(ctx context.Context, i int) error {
				return errorOf(embedded.UpdateOne(ctx, d("_id", i%n), d("$push", d("messages", message(n*each+i)))))
			}),
			way("insert with the owner", func(ctx context.Context, i int) error {
				return errorOf(messages.InsertOne(ctx, owned(n*each+2*i, i%n)))
			}),
			way("relation, which asks for the host", func(ctx context.Context, i int) error {
				return errorOf(rel.Insert(ctx, i%n, course{n*each + 2*i + 1, "info", text[i%800 : i%800+150]}))
			})),
	}
}
