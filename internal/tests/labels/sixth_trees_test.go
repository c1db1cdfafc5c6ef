package labels_test

import "go.mongodb.org/mongo-driver/v2/bson"

// Documents that are above and below others: tree.
func sixthTreeCases() []labelled {
	return []labelled{
		{
			name: "kategorien", service: "crowdfunding", pays: "tree",
			why: "a search collects all categories below one by $graphLookup over six levels, before it looks for projects",
			colls: []coll{{"kategorien", 900, []string{"über"}, func(g gen, i int) bson.D {
				return d("_id", i, "name", g.text(12), "über", below(i, 3, func(i int) any { return i }))
			}}},
			traffic: []requests{
				{120, func(s *session, _ int) {
					s.aggregate("kategorien", match("_id", s.IntN(40)), climb("kategorien", "$_id", "_id",
						"über", "alle"), project("alle._id", 1))
				}},
				{4, func(s *session, i int) {
					s.insert("kategorien", d("_id", 5000+i, "name", s.text(12), "über", s.IntN(200)))
				}},
			},
		},
		{
			name: "jednotky", service: "waste", pays: "tree", fine: "relation|extref",
			why: "the rights of a depot are looked up by climbing over all units above it, one findOne for each",
			colls: []coll{{"jednotky", 1000, nil, func(g gen, i int) bson.D {
				return d("_id", uuid(72, i), "název", g.text(12), "nadřízená", below(i, 3, func(i int) any { return uuid(72, i) }))
			}}},
			traffic: []requests{
				{80, func(s *session, _ int) {
					for id := any(uuid(72, s.between(400, 999))); id != nil; {
						id = s.one("jednotky", d("_id", id), nil)["nadřízená"]
					}
				}},
			},
		},
		{
			name: "componenti", service: "elevators", pays: "tree", fine: "relation",
			why: "the drawing of a lift reads its parts level by level with $in, until a level has no parts below it",
			colls: []coll{{"componenti", 1000, []string{"dentro"}, func(g gen, i int) bson.D {
				return d("_id", oid(85, i), "nome", g.text(10), "dentro", below(i, 3, func(i int) any { return oid(85, i) }))
			}}},
			traffic: []requests{
				{50, func(s *session, _ int) {
					level := a{oid(85, s.between(1, 12))}
					for len(level) > 0 {
						level = ids(s.find("componenti", d("dentro", d("$in", level)), by{}))
					}
				}},
			},
		},
		{
			name: "sektorët", service: "cemetery", pays: "tree",
			why: "the way to a grave is shown as the sections above it, which each page collects by a $graphLookup upwards",
			colls: []coll{{"sektorët", 800, []string{"brenda"}, func(g gen, i int) bson.D {
				return d("_id", serial("S", i), "emri", g.text(9), "brenda", below(i, 2, func(i int) any { return serial("S", i) }))
			}}},
			traffic: []requests{
				{140, func(s *session, _ int) {
					s.aggregate("sektorët", match("_id", serial("S", s.between(300, 799))),
						climb("sektorët", "$brenda", "brenda", "_id", "rruga"))
				}},
			},
		},
		{
			name: "interessi", service: "adserver", pays: "tree",
			why: "a campaign on an interest counts for all interests below it, which $graphLookup reads for each auction",
			colls: []coll{{"interessi", 700, []string{"padre"}, func(g gen, i int) bson.D {
				return d("_id", int64(i+1), "nome", g.text(11), "padre", below(i, 3, func(i int) any { return int64(i + 1) }))
			}}},
			traffic: []requests{
				{130, func(s *session, _ int) {
					s.aggregate("interessi", match("_id", int64(s.between(1, 40))),
						climb("interessi", "$_id", "_id", "padre", "sotto"), d("$set", d("n", d("$size", "$sotto"))))
				}},
			},
		},
		{
			name: "onderdelen", service: "drones", pays: "tree", fine: "relation",
			why: "an aircraft's parts are read by a recursion that asks for the children of one part after the other, four levels deep",
			colls: []coll{{"onderdelen", 700, []string{"deelVan"}, func(g gen, i int) bson.D {
				return d("_id", ulid("O", i), "naam", g.text(10), "deelVan", below(i, 4, func(i int) any { return ulid("O", i) }))
			}}},
			traffic: []requests{
				{25, func(s *session, _ int) {
					open := a{ulid("O", s.between(6, 40))}
					for len(open) > 0 {
						below := ids(s.find("onderdelen", d("deelVan", open[0]), by{}))
						open = append(open[1:], below...)
					}
				}},
			},
		},
		{
			name: "styles", service: "tattoo", fine: "relation",
			why: "there are two fixed levels, styles and their variants, and one find of the variants shows all that is below",
			colls: []coll{{"styles", 300, []string{"parent"}, func(g gen, i int) bson.D {
				parent := any(nil)
				if i >= 20 {
					parent = key("st", i%20)
				}
				return d("_id", key("st", i), "name", g.text(10), "parent", parent)
			}}},
			traffic: []requests{
				{140, func(s *session, _ int) { s.find("styles", d("parent", key("st", s.IntN(20))), by{sort: d("name", 1)}) }},
			},
		},
		{
			name: "doughs", service: "bakery",
			why: "each dough holds the IDs of all doughs that it descends from, so one equality finds everything below, as tree would store it",
			colls: []coll{{"doughs", 500, []string{"ancestors"}, func(g gen, i int) bson.D {
				up := a{}
				for n := i; n > 0; {
					n = (n - 1) / 3
					up = append(a{key("do", n)}, up...)
				}
				return d("_id", key("do", i), "name", g.text(9), "ancestors", up)
			}}},
			traffic: []requests{
				{140, func(s *session, _ int) { s.find("doughs", d("ancestors", key("do", s.IntN(30))), by{}) }},
			},
		},
		{
			name: "site_map", service: "petitions",
			why: "the menu is one document with its levels inside, always read and written whole, which is simpler than a tree",
			colls: []coll{{"site_map", 30, nil, func(g gen, i int) bson.D {
				return d("_id", i, "lang", key("l", i), "menu", list(6, func(int) any {
					return d("t", g.text(8), "sub", list(4, func(int) any { return d("t", g.text(8)) }))
				}))
			}}},
			traffic: []requests{
				{140, func(s *session, _ int) { s.one("site_map", d("_id", s.IntN(30)), nil) }},
			},
		},
	}
}
