package labels_test

import "go.mongodb.org/mongo-driver/v2/bson"

// What looks like a pattern that its package cannot serve by configuration.
func sixthOtherCases() []labelled {
	return []labelled{
		{
			name: "vouches", service: "crowdfunding", harm: "tree",
			why: "people vouch for each other in circles, so what $graphLookup walks over is no tree, and package tree refuses cycles",
			colls: []coll{{"vouches", 500, nil, func(g gen, i int) bson.D {
				return d("_id", i, "name", g.name(), "vouches", a{(i + 1) % 500, (i + 499) % 500, g.IntN(500)})
			}}},
			traffic: []requests{
				{110, func(s *session, _ int) {
					s.aggregate("vouches", match("_id", s.IntN(500)), d("$graphLookup", d("from", "vouches",
						"startWith", "$vouches",
						"connectFromField", "vouches", "connectToField", "_id", "maxDepth", 1,
						"as", "near")), project("near.name", 1))
				}},
			},
		},
		{
			name: "page_days", service: "petitions",
			why: "a counter is found by page and day together, while the key of approx is one field, so its package cannot keep it",
			colls: []coll{{"page_days", 300, []string{"page,day"}, func(g gen, i int) bson.D {
				return d("_id", oid(105, i), "page", key("pg", i%10), "day", at(i/10*24), "views", g.near(90_000))
			}}},
			traffic: []requests{
				{7500, func(s *session, _ int) {
					s.upsert("page_days", d("page", key("pg", 1), "day", at(29*24)), d("$inc", d("views", 1)))
				}},
				{40, func(s *session, _ int) { s.find("page_days", d("page", key("pg", s.IntN(10))), by{sort: d("day", 1)}) }},
			},
		},
		{
			name: "biografitë", service: "cemetery", harm: "split",
			why: "what lists show and the text of 4 kB are in one subdocument, while the cold fields of split are at the top level",
			colls: []coll{{"biografitë", 600, []string{"lagjja"}, func(g gen, i int) bson.D {
				return d("_id", serial("J", i), "lagjja", i%20, "kartela", d("emri", g.name(), "viti", 1900+i%120,
					"jeta", g.text(4000)))
			}}},
			traffic: []requests{
				{140, func(s *session, _ int) {
					s.find("biografitë", d("lagjja", s.IntN(20)), by{fields: keep("kartela.emri", "kartela.viti")})
				}},
				{8, func(s *session, _ int) { s.one("biografitë", d("_id", serial("J", s.IntN(600))), nil) }},
			},
		},
		{
			name: "afspraken", service: "tattoo", harm: "computed", fine: "bucket|series",
			why: "the sum is of the last thirty days before now, which changes without any write, so a stored one is wrong a day later",
			colls: []coll{
				{"afspraken", 3000, []string{"artiest,dag"}, func(g gen, i int) bson.D {
					return d("_id", oid(106, i), "artiest", int32(i%15), "dag", at(i), "uren", g.between(1, 6))
				}},
				{"artiesten", 15, nil, func(g gen, i int) bson.D { return d("_id", int32(i), "naam", g.name()) }},
			},
			traffic: []requests{
				{160, func(s *session, i int) {
					s.aggregate("afspraken", match("artiest", int32(s.IntN(15)), "dag", d("$gte", at(2000+i), "$lt", at(2720+i))),
						group("_id", "$artiest", "uren", d("$sum", "$uren")))
				}},
				{3, func(s *session, i int) {
					s.insert("afspraken", d("_id", oid(106, 9000+i), "artiest", int32(i), "dag", at(2900), "uren", 3))
				}},
			},
		},
		{
			name: "lift_filters", service: "elevators", harm: "attribute",
			why: "each query asks for three fields at once that every lift has, for which a compound index is faster than entries",
			colls: []coll{{"lift_filters", 1500, []string{"stad,fabrikant,bouwjaar"}, func(g gen, i int) bson.D {
				return d("_id", uuid(80, i), "stad", g.city(), "fabrikant", key("F", i%12), "bouwjaar", 1970+i%55,
					"kg", g.between(300, 1600))
			}}},
			traffic: []requests{
				{150, func(s *session, _ int) {
					s.linq("lift_filters", d("stad", s.city(), "fabrikant", key("F", s.IntN(12)),
						"bouwjaar", d("$gte", 2000)), d("$limit", 20))
				}},
			},
		},
	}
}
