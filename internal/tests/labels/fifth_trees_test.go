package labels_test

import (
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// Documents that are above and below others: tree.
func fifthTreeCases() []labelled {
	return []labelled{
		{
			name: "sritys", service: "jobs", pays: "tree",
			why: "a search in a field of work first collects everything below it by $graphLookup, over six levels",
			colls: []coll{{name: "sritys", n: 900, indexes: []string{"tėvas"}, doc: func(g gen, i int) bson.D {
				return d("_id", key("sr", i), "pavadinimas", g.text(14), "tėvas", below(i, 3, func(i int) any { return key("sr", i) }))
			}}},
			traffic: []requests{
				{120, func(s *session, _ int) {
					s.aggregate("sritys", match("_id", key("sr", s.IntN(40))), climb("sritys", "$_id", "_id", "tėvas", "žemiau"),
						project("žemiau._id", 1))
				}},
				{5, func(s *session, i int) {
					s.insert("sritys", d("_id", key("sr", 5000+i), "pavadinimas", s.text(14), "tėvas", key("sr", s.IntN(300))))
				}},
			},
		},
		{
			name: "deli", service: "sawmill", pays: "tree", fine: "relation|extref",
			why: "from a part the workshop climbs to its machine, a findOne for each of five levels",
			colls: []coll{{name: "deli", n: 1000, doc: func(g gen, i int) bson.D {
				return d("_id", oid(60, i), "naziv", g.text(12), "nad", below(i, 3, func(i int) any { return oid(60, i) }), "kos",
					g.IntN(9))
			}}},
			traffic: []requests{
				{90, func(s *session, _ int) {
					for id := any(oid(60, s.between(350, 999))); id != nil; {
						id = s.one("deli", d("_id", id), nil)["nad"]
					}
				}},
			},
		},
		{
			name: "idara", service: "embassy", pays: "tree", fine: "relation",
			why: "the chart of a department is read level by level, each by one $in of the answer before, until nothing is below",
			colls: []coll{{name: "idara", n: 800, indexes: []string{"juu"}, doc: func(g gen, i int) bson.D {
				return d("_id", hex(12, i), "jina", g.text(14), "juu", below(i, 3, func(i int) any { return hex(12, i) }), "watu",
					g.IntN(30))
			}}},
			traffic: []requests{
				{50, func(s *session, _ int) {
					for level := (a{hex(12, s.IntN(13))}); len(level) > 0; {
						level = ids(s.find("idara", d("juu", d("$in", level)), by{}))
					}
				}},
			},
		},
		{
			name: "replies", service: "podcast", pays: "tree",
			why: "a discussion is read from any comment downwards with $graphLookup, and replies go ten levels deep",
			colls: []coll{{name: "replies", n: 2000, indexes: []string{"parentId"}, doc: func(g gen, i int) bson.D {
				return d("_id", snow(7, i), "parentId", below(i, 2, func(i int) any { return snow(7, i) }), "by", g.name(), "text",
					g.text(60), "hidden", i%50 == 49)
			}}},
			traffic: []requests{
				{110, func(s *session, _ int) {
					s.aggregate("replies", match("_id", snow(7, s.between(10, 300))),
						d("$graphLookup", d("from", "replies", "startWith", "$_id", "connectFromField", "_id", "connectToField", "parentId",
							"as", "thread", "depthField", "depth", "restrictSearchWithMatch", d("hidden", false))))
				}},
				{8, func(s *session, i int) {
					s.insert("replies", d("_id", snow(7, 9000+i), "parentId", snow(7, s.IntN(2000)), "by", s.name(), "text", s.text(60),
						"hidden", false))
				}},
			},
		},
		{
			name: "variations", service: "chess", pays: "tree",
			why: "each move of a study lists the moves after it in an array, and the board follows the whole subtree by $graphLookup",
			colls: []coll{{name: "variations", n: 1000, doc: func(g gen, i int) bson.D {
				next := a{}
				for child := 2*i + 1; child <= 2*i+2 && child < 1000; child++ {
					next = append(next, int32(child))
				}
				return d("_id", int32(i), "san", g.of("e4", "Nf6", "O-O", "Qxd5"), "next", next, "eval", g.Float64())
			}}},
			traffic: []requests{
				{110, func(s *session, _ int) {
					s.aggregate("variations", match("_id", int32(s.IntN(120))), climb("variations", "$next", "next", "_id", "line"))
				}},
			},
		},
		{
			name: "gs_codes", service: "customs", pays: "tree", fine: "relation",
			why: "the nomenclature opens chapter, heading and code by one find of children for each node of the level above",
			colls: []coll{{name: "gs_codes", n: 1200, indexes: []string{"boven"}, doc: func(g gen, i int) bson.D {
				return d("_id", key("GS", i), "boven", below(i, 5, func(i int) any { return key("GS", i) }), "tekst", g.text(30))
			}}},
			traffic: []requests{
				{15, func(s *session, _ int) {
					level := s.find("gs_codes", d("boven", key("GS", s.between(1, 6))), by{})
					for range 2 {
						var next []bson.M
						for _, code := range level {
							next = append(next, s.find("gs_codes", d("boven", code["_id"]), by{})...)
						}
						level = next
					}
				}},
			},
		},
		{
			name: "surveys", service: "observatory", pays: "tree",
			why: "each image needs the way from its field up to its survey, which $graphLookup climbs over five levels",
			colls: []coll{{name: "surveys", n: 900, indexes: []string{"within"}, doc: func(g gen, i int) bson.D {
				return d("_id", uuid(60, i), "label", g.text(10), "within", below(i, 3, func(i int) any { return uuid(60, i) }))
			}}},
			traffic: []requests{
				{120, func(s *session, _ int) {
					s.aggregate("surveys", match("_id", uuid(60, s.between(300, 899))), climb("surveys", "$within", "within", "_id",
						"above"))
				}},
			},
		},
		{
			name: "friends", service: "chess", harm: "tree",
			why: "friends of friends are a graph with cycles in both directions, and a tree refuses cycles",
			colls: []coll{{name: "friends", n: 600, doc: func(g gen, i int) bson.D {
				return d("_id", ulid("F", i), "nick", g.name(), "knows", a{ulid("F", (i+1)%600), ulid("F", (i+599)%600),
					ulid("F", (i*7+3)%600)})
			}}},
			traffic: []requests{
				{110, func(s *session, _ int) {
					s.aggregate("friends", match("_id", ulid("F", s.IntN(600))),
						d("$graphLookup", d("from", "friends", "startWith", "$knows", "connectFromField", "knows", "connectToField", "_id",
							"as", "near", "maxDepth", 1)), project("nick", 1, "near.nick", 1))
				}},
			},
		},
		{
			name: "groups", service: "kindergarten",
			why: "houses and their groups are two fixed levels, and a house reads its groups by one find",
			colls: []coll{{name: "groups", n: 400, indexes: []string{"house"}, doc: func(g gen, i int) bson.D {
				if i < 40 {
					return d("_id", oid(61, i), "name", g.text(10), "house", nil)
				}
				return d("_id", oid(61, i), "name", g.text(10), "house", oid(61, i%40))
			}}},
			traffic: []requests{
				{130, func(s *session, _ int) { s.find("groups", d("house", oid(61, s.IntN(40))), by{sort: d("name", 1)}) }},
			},
		},
		{
			name: "programme", service: "circus",
			why:   "the whole evening is one small document with parts inside parts, read and written whole",
			colls: []coll{{name: "programme", n: 300, doc: func(g gen, i int) bson.D { return fifthEvening(g, i) }}},
			traffic: []requests{
				{130, func(s *session, _ int) { s.one("programme", d("_id", int32(s.IntN(300))), nil) }},
				{30, func(s *session, _ int) { s.save("programme", fifthEvening(s.gen, s.IntN(300))) }},
			},
		},
		{
			name: "protesi", service: "dentist",
			why: "products hold the array of all their categories from the root, so one equality reads a subtree already",
			colls: []coll{{name: "protesi", n: 1500, indexes: []string{"rutas"}, doc: func(g gen, i int) bson.D {
				return d("_id", oid(62, i), "nombre", g.text(14), "rutas", a{"c0", key("c1", i%5), key("c2", i%25), key("c3", i%125)})
			}}},
			traffic: []requests{
				{130, func(s *session, _ int) { s.find("protesi", d("rutas", key("c2", s.IntN(25))), by{limit: 50}) }},
			},
		},
	}
}

func fifthEvening(g gen, i int) bson.D {
	part := func(int) any {
		return d("nom", g.text(10), "parties", list(3, func(int) any { return d("nom", g.text(8), "min", g.between(3, 20)) }))
	}
	return d("_id", int32(i), "ville", strings.ToUpper(g.city()), "parties", list(3, part))
}
