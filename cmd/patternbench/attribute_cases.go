package main

import (
	"context"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/attribute"
)

var attributeCases = []benchmark{
	{"attribute", "one index", "Products of 5 categories with 12 specifications each, 60 in all: an array with one index, against a field and a sparse index for each, and against an object with a wildcard index.", attributeIndexes},
	{"attribute", "few fields", "When not to use it: two conditions on fields that all documents have, against a compound index.", attributeConditions},
}

const (
	categories     = 5
	specifications = 12 // of a category
	values         = 1000
)

func specification(i, n int) string {
	return fmt.Sprintf("spec_%02d", i%categories*specifications+n)
}

// valueOf is a specification's value, the same in each way of storing it.
func valueOf(i, n int) int { return (i*7919 + n*104729) % values }

func attributeIndexes(ctx context.Context, b *bench) []comparison {
	n, reads := b.size(2000, 20_000, 50_000), b.size(80, 400, 500)
	db := b.db()
	columns, wildcard, array := db.Collection("columns"), db.Collection("wildcard"), db.Collection("array")
	var models []mongo.IndexModel
	for i := range categories {
		for n := range specifications {
			models = append(models, mongo.IndexModel{Keys: d(specification(i, n), 1), Options: options.Index().SetSparse(true)})
		}
	}
	must(columns.Indexes().CreateMany(ctx, models))
	specs := must(attribute.New[int, int](array, &attribute.Options{ArrayField: "specs"}))
	check(index(ctx, wildcard, d("specs.$**", 1)), specs.EnsureIndexes(ctx))

	const columnsName, wildcardName, arrayName = "a field and an index each", "wildcard index", "attribute"
	fields := func(i int, doc bson.D) bson.D {
		for n := range specifications {
			doc = append(doc, bson.E{Key: specification(i, n), Value: valueOf(i, n)})
		}
		return doc
	}
	// The documents are inserted in as many parts as there are runs.
	part := max(n/b.runs, 1)
	insert := func(name string, coll *mongo.Collection, document func(i int) any) side {
		from := 0
		return side{name: name, run: func(ctx context.Context) error {
			from += part
			return fillFrom(ctx, coll, from-part, from, document)
		}}
	}
	inserts := compared("insert a product", part,
		insert(columnsName, columns, func(i int) any { return fields(i, d("_id", i, "name", "product")) }),
		insert(wildcardName, wildcard, func(i int) any { return d("_id", i, "name", "product", "specs", fields(i, nil)) }),
		insert(arrayName, array, func(i int) any {
			entries := make(bson.A, specifications)
			for n := range entries {
				entries[n] = d("k", specification(i, n), "v", valueOf(i, n))
			}
			return d("_id", i, "name", "product", "specs", entries)
		}))
	inserts.after = func(ctx context.Context) {
		var data, indexes []value
		for _, s := range []sized{in(columnsName, columns), in(wildcardName, wildcard), in(arrayName, array)} {
			size, index, err := bytesOf(ctx, s.colls...)
			check(err)
			data, indexes = append(data, value{s.name, size}), append(indexes, value{s.name, index})
		}
		b.report("documents", "bytes", data...)
		b.report("indexes", "bytes", indexes...)
	}

	// The 20 values of a range of 10 of 1000 are about 1 in 100 of a category.
	find := func(name string, coll *mongo.Collection, filter func(key string, from int) bson.D) side {
		return way(name, func(ctx context.Context, i int) error {
			return errorOf(findAll[bson.Raw](ctx, -1, coll, filter(specification(i, i%specifications), i*37%values), options.Find().SetLimit(20)))
		})
	}
	between := func(prefix string) func(key string, from int) bson.D {
		return func(key string, from int) bson.D { return d(prefix+key, d("$gte", from, "$lt", from+10)) }
	}
	id := func(i int) int { return i * 31 % (part * b.runs) }
	update := func(name string, coll *mongo.Collection, prefix string) side {
		return way(name, func(ctx context.Context, i int) error {
			return errorOf(coll.UpdateOne(ctx, d("_id", id(i)), d("$set", d(prefix+specification(id(i), i%specifications), -i))))
		})
	}
	return []comparison{
		inserts,
		compared("find 20 by a range of one specification", reads, find(columnsName, columns, between("")), find(wildcardName, wildcard, between("specs.")),
			find(arrayName, array, func(key string, from int) bson.D {
				return specs.Filter(specs.Range(attribute.Named(key), from, from+10))
			})),
		compared("set one specification", reads, update(columnsName, columns, ""), update(wildcardName, wildcard, "specs."),
			way(arrayName, func(ctx context.Context, i int) error {
				return specs.Set(ctx, id(i), attribute.Named(specification(id(i), i%specifications)), -i)
			})),
	}
}

func attributeConditions(ctx context.Context, b *bench) []comparison {
	n, reads := b.size(2000, 20_000, 50_000), b.size(50, 100, 200)
	db := b.db()
	columns, array := db.Collection("columns"), db.Collection("array")
	specs := must(attribute.New[int, int](array, nil))
	brand, color := func(i int) int { return i % 20 }, func(i int) int { return i / 20 % 50 }
	check(index(ctx, columns, d("brand", 1, "color", 1)), specs.EnsureIndexes(ctx),
		fill(ctx, columns, n, func(i int) any { return d("_id", i, "brand", brand(i), "color", color(i)) }),
		fill(ctx, array, n, func(i int) any {
			return d("_id", i, "attributes", bson.A{d("k", "brand", "v", brand(i)), d("k", "color", "v", color(i))})
		}))
	return []comparison{compared("find by two conditions", reads,
		way("compound index", func(ctx context.Context, i int) error {
			return errorOf(findAll[bson.Raw](ctx, -1, columns, d("brand", brand(i), "color", i%50)))
		}),
		way("attribute", func(ctx context.Context, i int) error {
			return errorOf(findAll[bson.Raw](ctx, -1, array, specs.Filter(specs.Equals(attribute.Named("brand"), brand(i)), specs.Equals(attribute.Named("color"), i%50))))
		}))}
}
