package labels_test

import (
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// References between documents, and trees of them: relation, tree, extref.
func secondRefCases() []labelled {
	return []labelled{
		{
			name: "theatres", service: "theatre", pays: "relation",
			why: "the programme of a town reads its theatres and then sends one find for the shows of each",
			colls: []coll{
				{name: "theatres", n: 60, indexes: []string{"ville"}, doc: func(g gen, i int) bson.D {
					return d("_id", uuid(40, i), "ville", i%10, "nom", g.text(14))
				}},
				{name: "seances", n: 1500, indexes: []string{"theatreId"}, doc: func(g gen, i int) bson.D {
					return d("_id", oid(80, i), "theatreId", uuid(40, i%60), "le", at(i), "piece", g.text(20))
				}},
			},
			traffic: []requests{{40, func(s *session, _ int) {
				for _, t := range s.find("theatres", d("ville", s.IntN(10)), by{}) {
					s.find("seances", d("theatreId", t["_id"]), by{sort: d("le", 1)})
				}
			}}},
		},
		{
			name: "lagerhallen", service: "harbor", pays: "relation", harm: "outlier|subset",
			why: "300 pallets lie in each hall's document, but are searched, moved and read one by one by their code",
			colls: []coll{{name: "lagerhallen", n: 40, indexes: []string{"paletten.sscc"}, doc: func(g gen, i int) bson.D {
				return d("_id", oid(81, i), "halle", i, "paletten", list(300, func(j int) any {
					return d("_id", uuid(41, i*300+j), "sscc", fmt.Sprintf("3400%012d", i*300+j), "platz", g.text(6), "inhalt", g.text(40))
				}))
			}}},
			traffic: []requests{
				{120, func(s *session, _ int) {
					code := fmt.Sprintf("3400%012d", s.IntN(12_000))
					s.one("lagerhallen", d("paletten.sscc", code), d("paletten.$", 1))
				}},
				{60, func(s *session, _ int) {
					code := fmt.Sprintf("3400%012d", s.IntN(12_000))
					s.update("lagerhallen", d("paletten.sscc", code), d("$set", d("paletten.$.platz", s.text(6))))
				}},
			},
		},
		{
			name: "contracten", service: "property", pays: "relation",
			why: "a contract has three clauses in a collection of their own, each read joins them, and nothing reads them alone: embed",
			colls: []coll{
				{name: "contracten", n: 500, doc: func(g gen, i int) bson.D {
					return d("_id", int64(i), "huurder", g.name(),
						"van", at(i))
				}},
				{name: "clausules", n: 1500, indexes: []string{"contractId"}, doc: func(g gen, i int) bson.D {
					return d("_id", oid(82, i), "contractId", int64(i%500), "nr", i/500, "tekst", g.text(120))
				}},
			},
			traffic: []requests{{140, func(s *session, _ int) {
				s.aggregate("contracten", match("_id", int64(s.IntN(500))), join("clausules", "_id", "contractId", "clausules"))
			}}},
		},
		{
			name: "torneios", service: "league", pays: "relation", fine: "outlier|subset",
			why: "each tournament's array of match IDs grows without end; the owner belongs into the match",
			colls: []coll{
				{name: "torneios", n: 30, doc: func(g gen, i int) bson.D {
					return d("_id", oid(83, i), "nome", g.city(),
						"partidas", list(g.between(200, 300), func(j int) any { return oid(84, i*300+j) }), "__v", 2)
				}},
				{name: "partidas", n: 9000, doc: func(g gen, i int) bson.D {
					return d("_id", oid(84, i), "data", at(i), "placar", fmt.Sprintf("%d-%d", g.IntN(5), g.IntN(5)))
				}},
			},
			traffic: []requests{
				{40, func(s *session, _ int) {
					t := s.one("torneios", d("_id", oid(83, s.IntN(30))), nil)
					s.find("partidas", d("_id", d("$in", t["partidas"])), by{sort: d("data", -1)})
				}},
				{60, func(s *session, i int) {
					s.insert("partidas", d("_id", oid(85, i), "data", at(9000+i), "placar", "0-0"))
					s.update("torneios", d("_id", oid(83, s.IntN(30))), d("$push", d("partidas", oid(85, i))))
				}},
			},
		},
		{
			name: "kaupunginosat", service: "council", pays: "relation",
			why: "a resolver asks for the playgrounds of each district that the query before it returned",
			colls: []coll{
				{name: "kaupunginosat", n: 80, indexes: []string{"suurpiiri"}, doc: func(g gen, i int) bson.D {
					return d("_id", key("osa", i), "suurpiiri", i%8, "nimi", g.text(14))
				}},
				{name: "leikkipuistot", n: 1200, indexes: []string{"osa"}, doc: func(g gen, i int) bson.D {
					return d("_id", oid(86, i), "osa", key("osa", i%80), "nimi", g.text(14), "keinut", g.IntN(9))
				}},
			},
			traffic: []requests{{40, func(s *session, _ int) {
				for _, o := range s.find("kaupunginosat", d("suurpiiri", s.IntN(8)), by{fields: d("nimi", 1)}) {
					s.find("leikkipuistot", d("osa", o["_id"]), by{fields: d("nimi", 1, "keinut", 1)})
				}
			}}},
		},
		{
			name: "kanzleien", service: "court", pays: "relation", harm: "outlier|subset",
			why: "the lawyers of a firm are embedded, up to 200, but every question is about one lawyer, who changes alone",
			colls: []coll{{name: "kanzleien", n: 60, indexes: []string{"anwaelte.nr"}, doc: func(g gen, i int) bson.D {
				return d("_id", int64(i), "name", g.name(), "anwaelte", list(200, func(j int) any {
					return d("_id", int64(i*200+j), "nr", key("RA", i*200+j), "name", g.name(), "fach", g.of("Erbrecht", "Mietrecht"),
						"vita", g.text(80))
				}))
			}}},
			traffic: []requests{
				{120, func(s *session, _ int) {
					nr := key("RA", s.IntN(12_000))
					s.aggregate("kanzleien", match("anwaelte.nr", nr), d("$unwind", "$anwaelte"), match("anwaelte.nr", nr),
						d("$replaceRoot", d("newRoot", "$anwaelte")))
				}},
				{50, func(s *session, _ int) {
					s.update("kanzleien", d("anwaelte.nr", key("RA", s.IntN(12_000))), d("$set", d("anwaelte.$.fach", "Mietrecht")))
				}},
			},
		},
		{
			name: "groupes", service: "rental", pays: "relation|extref",
			why: "a group holds the IDs of its members, and each member is read by a findOne of its own",
			colls: []coll{
				{name: "groupes", n: 120, doc: func(g gen, i int) bson.D {
					return d("_id", oid(87, i), "nom", g.text(12),
						"membres", list(g.between(6, 12), func(j int) any { return uuid(42, (i*12+j)%900) }))
				}},
				{name: "membres", n: 900, doc: func(g gen, i int) bson.D {
					return d("_id", uuid(42, i), "nom", g.name(), "ville", g.city(), "tel", g.text(10), "bio", g.text(90))
				}},
			},
			traffic: []requests{{50, func(s *session, _ int) {
				for _, m := range s.one("groupes", d("_id", oid(87, s.IntN(120))), nil)["membres"].(a) {
					s.one("membres", d("_id", m), nil)
				}
			}}},
		},
		{
			name: "kunden", service: "telecom", pays: "relation",
			why: "a list of customers sends one find for the lines of each of them",
			colls: []coll{
				{name: "kunden", n: 500, indexes: []string{"plz"}, doc: func(g gen, i int) bson.D {
					return d("_id", i, "plz", i%50, "name", g.name())
				}},
				{name: "leitungen", n: 1500, indexes: []string{"kunde"}, doc: func(g gen, i int) bson.D {
					return d("_id", oid(88, i), "kunde", i%500, "nummer", fmt.Sprintf("+49%09d", i), "art", g.of("dsl", "glas"))
				}},
			},
			traffic: []requests{{40, func(s *session, _ int) {
				for _, c := range s.find("kunden", d("plz", s.IntN(50)), by{sort: d("_id", 1)}) {
					s.find("leitungen", d("kunde", c["_id"]), by{})
				}
			}}},
		},
		{
			name: "clients", service: "rental", harm: "relation|outlier|subset",
			why: "a client has up to three addresses, read with the client, and few are changed by their label",
			colls: []coll{{name: "clients", n: 900, indexes: []string{"courriel"}, doc: func(g gen, i int) bson.D {
				return d("_id", oid(89, i), "courriel", fmt.Sprintf("c%d@ex.org", i), "adresses", list(g.between(1, 3), func(j int) any {
					return d("_id", oid(90, i*3+j), "libelle", []string{"domicile", "travail", "autre"}[j], "rue", g.text(20),
						"ville", g.city())
				}))
			}}},
			traffic: []requests{
				{140, func(s *session, _ int) { s.one("clients", d("courriel", fmt.Sprintf("c%d@ex.org", s.IntN(900))), nil) }},
				{15, func(s *session, _ int) {
					s.update("clients", d("_id", oid(89, s.IntN(900)), "adresses.libelle", "domicile"),
						d("$set", d("adresses.$.rue", s.text(20))))
				}},
			},
		},
		{
			name: "bieter", service: "auction",
			why: "each request looks up another bidder by the number in its own token; no query before it answered with these numbers",
			colls: []coll{{name: "bieter", n: 1000, indexes: []string{"nummer"}, doc: func(g gen, i int) bson.D {
				return d("_id", uuid(43, i), "nummer", 50_000+i*7, "name", g.name(), "limit", g.IntN(90_000))
			}}},
			traffic: []requests{{200, func(s *session, _ int) { s.one("bieter", d("nummer", 50_000+s.IntN(1000)*7), nil) }}},
		},
		{
			name: "eigenaren", service: "property",
			why: "a page reads one owner and then one list of that owner's plots, two queries however many there are",
			colls: []coll{
				{name: "eigenaren", n: 700, indexes: []string{"bsn"}, doc: func(g gen, i int) bson.D {
					return d("_id", oid(91, i), "bsn", fmt.Sprintf("%09d", i), "naam", g.name())
				}},
				{name: "percelen", n: 2100, indexes: []string{"eigenaar"}, doc: func(g gen, i int) bson.D {
					return d("_id", oid(92, i), "eigenaar", oid(91, i%700), "sectie", g.text(4), "m2", g.IntN(900), "plan", g.text(100))
				}},
			},
			traffic: []requests{
				{60, func(s *session, _ int) {
					owner := s.one("eigenaren", d("bsn", fmt.Sprintf("%09d", s.IntN(700))), nil)
					s.find("percelen", d("eigenaar", owner["_id"]), by{})
				}},
				{120, func(s *session, _ int) { s.one("percelen", d("_id", oid(92, s.IntN(2100))), nil) }},
				{60, func(s *session, _ int) { s.one("eigenaren", d("bsn", fmt.Sprintf("%09d", s.IntN(700))), nil) }},
			},
		},
		{
			name: "protocols", service: "lab", harm: "relation|outlier|subset",
			why: "the twenty steps of a protocol are followed as one text; steps are edited in place, but never read without the others",
			colls: []coll{{name: "protocols", n: 600, indexes: []string{"code"}, doc: func(g gen, i int) bson.D {
				return d("_id", oid(93, i), "code", key("SOP", i), "steps", list(g.between(8, 20), func(j int) any {
					return d("_id", oid(94, i*20+j), "n", j, "text", g.text(50), "min", g.IntN(60))
				}))
			}}},
			traffic: []requests{
				{130, func(s *session, _ int) { s.one("protocols", d("code", key("SOP", s.IntN(600))), nil) }},
				{30, func(s *session, _ int) {
					s.update("protocols", d("_id", oid(93, s.IntN(600)), "steps.n", s.IntN(8)), d("$set", d("steps.$.text", s.text(50))))
				}},
			},
		},
		{
			name: "zaehlplaetze", service: "telecom", harm: "relation|extref",
			why: "alarms of a site are joined now and then, but four of five reads search alarms alone, so they must stay apart",
			colls: []coll{
				{name: "zaehlplaetze", n: 300, doc: func(g gen, i int) bson.D { return d("_id", key("Z", i), "strasse", g.text(20)) }},
				{name: "meldungen", n: 1500, indexes: []string{"platz", "ticket"}, doc: func(g gen, i int) bson.D {
					return d("_id", oid(95, i), "platz", key("Z", i%300), "ticket", 80_000+i, "text", g.text(60), "zustand", "neu")
				}},
			},
			traffic: []requests{
				{20, func(s *session, _ int) {
					s.aggregate("zaehlplaetze", match("_id", key("Z", s.IntN(300))), join("meldungen", "_id", "platz", "m"))
				}},
				{120, func(s *session, _ int) { s.one("meldungen", d("ticket", 80_000+s.IntN(1500)), nil) }},
				{40, func(s *session, _ int) {
					s.update("meldungen", d("ticket", 80_000+s.IntN(1500)), d("$set", d("zustand", "zu")))
				}},
			},
		},
		{
			name: "gesetze", service: "court", pays: "tree",
			why: "paragraphs know what they belong to, and a chapter with everything below it is read by $graphLookup",
			colls: []coll{{name: "gesetze", n: 900, indexes: []string{"oberhalb"}, doc: func(g gen, i int) bson.D {
				return d("_id", i, "oberhalb", parent(i, 4), "titel", g.text(24))
			}}},
			traffic: []requests{
				{90, func(s *session, _ int) {
					s.aggregate("gesetze", match("_id", s.IntN(60)),
						d("$graphLookup", d("from", "gesetze", "startWith", "$_id", "connectFromField", "_id", "connectToField",
							"oberhalb", "as", "darunter")))
				}},
				{5, func(s *session, i int) {
					s.insert("gesetze", d("_id", 5000+i, "oberhalb", s.IntN(200), "titel", s.text(24)))
				}},
			},
		},
		{
			name: "taxa", service: "lab", pays: "tree",
			why: "the way up from a species to the kingdom is climbed with one findOne a level, nine of them",
			colls: []coll{{name: "taxa", n: 800, indexes: []string{"parent_id"}, doc: func(g gen, i int) bson.D {
				doc := d("_id", uuid(44, i), "name", g.text(14), "rank", g.of("genus", "family"))
				if i > 0 {
					doc = append(doc, bson.E{Key: "parent_id", Value: uuid(44, (i-1)/2)})
				}
				return doc
			}}},
			traffic: []requests{{45, func(s *session, _ int) {
				for id := any(uuid(44, s.between(400, 799))); id != nil; {
					id = s.one("taxa", d("_id", id), nil)["parent_id"]
				}
			}}},
		},
		{
			name: "gebieden", service: "property", pays: "tree",
			why: "everything below an area is read level by level, with the IDs of a level in an $in",
			colls: []coll{{name: "gebieden", n: 800, indexes: []string{"bovenliggend"}, doc: func(g gen, i int) bson.D {
				var above any
				if i > 0 {
					above = oid(96, (i-1)/3)
				}
				return d("_id", oid(96, i), "bovenliggend", above, "naam", g.text(14))
			}}},
			traffic: []requests{{60, func(s *session, _ int) {
				for level := (a{oid(96, s.between(1, 12))}); len(level) > 0; {
					level = ids(s.find("gebieden", d("bovenliggend", d("$in", level)), by{}))
				}
			}}},
		},
		{
			name: "packages_tree", service: "builds", pays: "tree",
			why: "a source folder finds the owners of all folders above it by $graphLookup upwards",
			colls: []coll{{name: "packages_tree", n: 700, indexes: []string{"in"}, doc: func(g gen, i int) bson.D {
				var in any
				if i > 0 {
					in = key("dir", (i-1)/3)
				}
				return d("_id", key("dir", i), "in", in, "owner", g.name())
			}}},
			traffic: []requests{{100, func(s *session, _ int) {
				s.aggregate("packages_tree", match("_id", key("dir", s.between(100, 699))),
					d("$graphLookup", d("from", "packages_tree", "startWith", "$in", "connectFromField", "in", "connectToField",
						"_id", "as", "above")))
			}}},
		},
		{
			name: "yksikot", service: "council", pays: "tree",
			why: "an office with all offices below it that are open, at any depth, in one $graphLookup with a condition",
			colls: []coll{{name: "yksikot", n: 600, indexes: []string{"emo"}, doc: func(g gen, i int) bson.D {
				return d("_id", int64(i), "emo", parent(i, 5), "nimi", g.text(16), "auki", i%9 != 0)
			}}},
			traffic: []requests{{90, func(s *session, _ int) {
				s.aggregate("yksikot", match("_id", int64(s.IntN(25))), d("$graphLookup", d("from", "yksikot", "startWith", "$_id",
					"connectFromField", "_id", "connectToField", "emo", "as", "alla", "depthField", "taso", "restrictSearchWithMatch",
					d("auki", true))))
			}}},
		},
		{
			name: "anlagen", service: "harbor", pays: "tree|relation",
			why: "a plant holds the IDs of its parts, and a report reads them recursively, one findOne for each part",
			colls: []coll{{name: "anlagen", n: 600, doc: func(g gen, i int) bson.D {
				teile := a{}
				for j := i*3 + 1; j <= i*3+3 && j < 600; j++ {
					teile = append(teile, key("T", j))
				}
				return d("_id", key("T", i), "bezeichnung", g.text(14), "teile", teile)
			}}},
			traffic: []requests{{20, func(s *session, _ int) {
				for open := (a{key("T", s.between(14, 39))}); len(open) > 0; {
					open = append(open[1:], s.one("anlagen", d("_id", open[0]), nil)["teile"].(a)...)
				}
			}}},
		},
		{
			name: "rubriken", service: "radio",
			why: "there are two levels, and one find reads the rubrics below a main one",
			colls: []coll{{name: "rubriken", n: 120, indexes: []string{"haupt"}, doc: func(g gen, i int) bson.D {
				if i < 10 {
					return d("_id", i, "haupt", nil, "name", g.text(10))
				}
				return d("_id", i, "haupt", i%10, "name", g.text(10))
			}}},
			traffic: []requests{{120, func(s *session, _ int) {
				s.find("rubriken", d("haupt", s.IntN(10)),
					by{sort: d("name", 1)})
			}}},
		},
		{
			name: "amis", service: "rental", harm: "tree",
			why: "friends are a graph with circles and many neighbours, which no tree can hold, and two steps are enough",
			colls: []coll{{name: "amis", n: 400, doc: func(g gen, i int) bson.D {
				return d("_id", i, "pseudo", g.text(8), "amis", list(5, func(j int) any { return (i + 1 + j*j*7) % 400 }))
			}}},
			traffic: []requests{{80, func(s *session, _ int) {
				s.aggregate("amis", match("_id", s.IntN(400)), d("$graphLookup", d("from", "amis", "startWith", "$amis",
					"connectFromField", "amis", "connectToField", "_id", "as", "proches", "maxDepth", 1)))
			}}},
		},
		{
			name: "standorte", service: "telecom",
			why: "each site already has the path of its ancestors, and a prefix of it finds everything below",
			colls: []coll{{name: "standorte", n: 700, indexes: []string{"pfad"}, doc: func(g gen, i int) bson.D {
				path := ","
				for n := i; n > 0; n = (n - 1) / 4 {
					path = fmt.Sprintf(",%d%s", (n-1)/4, path)
				}
				return d("_id", i, "pfad", path, "name", g.text(14))
			}}},
			traffic: []requests{{110, func(s *session, _ int) {
				s.find("standorte", d("pfad", bson.Regex{Pattern: fmt.Sprintf("^,0,%d,", s.between(1, 4))}), by{})
			}}},
		},
		{
			name: "comissoes", service: "league",
			why: "the 60 committees are read whole, with one find, and put together in memory",
			colls: []coll{{name: "comissoes", n: 60, doc: func(g gen, i int) bson.D {
				return d("_id", i, "acima", parent(i, 3), "nome", g.text(14))
			}}},
			traffic: []requests{{90, func(s *session, _ int) { s.find("comissoes", bson.D{}, by{}) }}},
		},
		{
			name: "buchungen_see", service: "harbor", pays: "extref",
			why: "each list of bookings joins name and number of the shipper by its _id, and these hardly ever change",
			colls: []coll{
				{name: "buchungen_see", n: 2000, indexes: []string{"reise"}, doc: func(g gen, i int) bson.D {
					return d("_id", oid(97, i), "reise", i%100, "verlader", uuid(45, i%300), "teu", g.between(1, 40))
				}},
				{name: "verlader", n: 300, doc: func(g gen, i int) bson.D {
					return d("_id", uuid(45, i), "name", g.name(), "eori", key("DE", i), "anschrift", g.text(60),
						"ansprechpartner", g.name(), "notizen", g.text(400))
				}},
			},
			traffic: []requests{
				{150, func(s *session, _ int) {
					s.aggregate("buchungen_see", match("reise", s.IntN(100)), join("verlader", "verlader", "_id", "v"), d("$unwind", "$v"),
						d("$project", d("teu", 1, "v.name", 1, "v.eori", 1)))
				}},
				{3, func(s *session, _ int) {
					s.update("verlader", d("_id", uuid(45, s.IntN(300))), d("$set", d("notizen", s.text(400))))
				}},
			},
		},
		{
			name: "termine", service: "court", pays: "extref|relation",
			why: "the day's hearings send a findOne for the name of each hearing's judge",
			colls: []coll{
				{name: "termine", n: 1500, indexes: []string{"tag"}, doc: func(g gen, i int) bson.D {
					return d("_id", oid(98, i), "tag", i/12, "saal", i%12, "vorsitz", oid(99, i*7%80))
				}},
				{name: "vorsitzende", n: 80, doc: func(g gen, i int) bson.D {
					return d("_id", oid(99, i), "name", g.name(), "titel", g.of("Dr.", "Prof."), "geboren", at(i), "akte", g.text(500))
				}},
			},
			traffic: []requests{{40, func(s *session, _ int) {
				for _, t := range s.find("termine", d("tag", s.IntN(125)), by{}) {
					s.one("vorsitzende", d("_id", t["vorsitz"]), d("name", 1, "titel", 1))
				}
			}}},
		},
		{
			name: "sendeplan", service: "radio", pays: "extref",
			why: "populate reads name and picture of the hosts after every list of the schedule, by an $in of their IDs",
			colls: []coll{
				{name: "sendeplan", n: 2000, indexes: []string{"tag"}, doc: func(g gen, i int) bson.D {
					return d("_id", oid(100, i), "tag", i/20, "uhr", i%20, "moderation", oid(101, i*3%90), "__v", 0)
				}},
				{name: "moderation", n: 90, doc: func(g gen, i int) bson.D {
					return d("_id", oid(101, i), "name", g.name(), "bild", g.text(40), "vertrag", g.text(300), "gehalt", g.IntN(9000),
						"__v", 0)
				}},
			},
			traffic: []requests{{120, func(s *session, _ int) {
				var hosts a
				for _, slot := range s.find("sendeplan", d("tag", s.IntN(100)), by{sort: d("uhr", 1)}) {
					hosts = append(hosts, slot["moderation"])
				}
				s.find("moderation", d("_id", d("$in", hosts)), by{fields: d("name", 1, "bild", 1)})
			}}},
		},
		{
			name: "locations", service: "rental", pays: "extref",
			why: "each list of rentals joins the customer's name, by a pipeline that compares _id; names hardly change",
			colls: []coll{
				{name: "locations", n: 2000, indexes: []string{"agence"}, doc: func(g gen, i int) bson.D {
					return d("_id", uuid(46, i), "agence", i%80, "abonne", i%400, "depuis", at(i))
				}},
				{name: "abonnes", n: 400, doc: func(g gen, i int) bson.D {
					return d("_id", i, "nom", g.name(), "iban", g.text(22), "adresse", g.text(60), "dossier", g.text(300))
				}},
			},
			traffic: []requests{{120, func(s *session, _ int) {
				s.aggregate("locations", match("agence", s.IntN(80)), d("$lookup", d("from", "abonnes", "let", d("qui", "$abonne"),
					"pipeline", a{match("$expr", d("$eq", a{"$_id", "$$qui"})), d("$project", d("nom", 1))}, "as", "abonne")))
			}}},
		},
		{
			name: "deployments", service: "builds", pays: "extref",
			why: "the board joins two fields of the service by its _id into each deployment",
			colls: []coll{
				{name: "deployments", n: 2000, indexes: []string{"env"}, doc: func(g gen, i int) bson.D {
					return d("_id", oid(102, i), "env", i%60, "service_id", key("svc", i%150), "at", minute(i))
				}},
				{name: "services", n: 150, doc: func(g gen, i int) bson.D {
					return d("_id", key("svc", i), "title", g.text(16), "team", g.text(8), "readme", g.text(600), "hooks", a{"x", "y"})
				}},
			},
			traffic: []requests{
				{140, func(s *session, _ int) {
					s.aggregate("deployments", match("env", s.IntN(60)), d("$sort", d("at", -1)), d("$limit", 20),
						join("services", "service_id", "_id", "service"),
						d("$set", d("service", d("$first", "$service"))), d("$project", d("at", 1, "service.title", 1, "service.team", 1)))
				}},
				{4, func(s *session, _ int) {
					s.update("services", d("_id", key("svc", s.IntN(150))), d("$set", d("readme", s.text(600))))
				}},
			},
		},
		{
			name: "jogos", service: "league", pays: "extref",
			why: "fixtures join the names of both teams, home and away, at each read, and teams are not renamed within a season",
			colls: []coll{
				{name: "jogos", n: 1800, indexes: []string{"rodada"}, doc: func(g gen, i int) bson.D {
					return d("_id", oid(103, i), "rodada", i%90, "casa", i%64, "fora", (i*5+1)%64)
				}},
				{name: "equipes", n: 64, doc: func(g gen, i int) bson.D {
					return d("_id", i, "nome", g.city(), "escudo", g.text(30), "historia", g.text(400), "socios", g.IntN(9000))
				}},
			},
			traffic: []requests{{120, func(s *session, _ int) {
				s.aggregate("jogos", match("rodada", s.IntN(90)), join("equipes", "casa", "_id", "c"),
					join("equipes", "fora", "_id", "f"),
					d("$project", d("rodada", 1, "c.nome", 1, "f.nome", 1)))
			}}},
		},
		{
			name: "luvat", service: "council", pays: "extref",
			why: "permits name their applicant by a number that is not the _id, and each list joins the name by it",
			colls: []coll{
				{name: "luvat", n: 1800, indexes: []string{"vuosi"}, doc: func(g gen, i int) bson.D {
					return d("_id", oid(104, i), "vuosi", i%90, "hakija", key("Y", i%350), "laji", g.of("katu", "puu"))
				}},
				{name: "hakijat", n: 350, indexes: []string{"tunnus"}, doc: func(g gen, i int) bson.D {
					return d("_id", oid(105, i), "tunnus", key("Y", i), "nimi", g.name(), "osoite", g.text(50), "historia", g.text(300))
				}},
			},
			traffic: []requests{{120, func(s *session, _ int) {
				s.aggregate("luvat", match("vuosi", s.IntN(90)), join("hakijat", "hakija", "tunnus", "h"), d("$unwind", "$h"),
					d("$project", d("laji", 1, "h.nimi", 1)))
			}}},
		},
		{
			name: "watchlist", service: "auction", harm: "extref",
			why: "the joined price changes with each bid, several times between two reads, so every bid would write all copies",
			colls: []coll{
				{name: "watchlist", n: 2000, indexes: []string{"user"}, doc: func(g gen, i int) bson.D {
					return d("_id", oid(106, i), "user", i%200, "lot", i%60, "since", at(i))
				}},
				{name: "live_lots", n: 60, doc: func(g gen, i int) bson.D {
					return d("_id", i, "price", g.IntN(9000), "bids", 0, "text", g.text(300))
				}},
			},
			traffic: []requests{
				{90, func(s *session, _ int) {
					s.aggregate("watchlist", match("user", s.IntN(200)), join("live_lots", "lot", "_id", "l"),
						d("$project", d("since", 1, "l.price", 1, "l.bids", 1)))
				}},
				{350, func(s *session, _ int) {
					s.update("live_lots", d("_id", s.IntN(60)), d("$inc", d("price", s.between(1, 50), "bids", 1)))
				}},
			},
		},
		{
			name: "vermietung", service: "harbor", harm: "extref",
			why: "the joined number of free places must be right at every moment and changes all the time",
			colls: []coll{
				{name: "vermietung", n: 1500, indexes: []string{"mieter"}, doc: func(g gen, i int) bson.D {
					return d("_id", uuid(47, i), "mieter", i%150, "feld", key("feld", i%50))
				}},
				{name: "lagerfelder", n: 50, doc: func(g gen, i int) bson.D {
					return d("_id", key("feld", i), "frei", 500, "belegt", 0, "plan", g.text(200))
				}},
			},
			traffic: []requests{
				{100, func(s *session, _ int) {
					s.aggregate("vermietung", match("mieter", s.IntN(150)), join("lagerfelder", "feld", "_id", "f"),
						d("$project", d("feld", 1, "f.frei", 1)))
				}},
				{300, func(s *session, i int) {
					s.update("lagerfelder", d("_id", key("feld", s.IntN(50))), d("$inc", d("frei", 1-i%2*2, "belegt", i%2*2-1)))
				}},
			},
		},
		{
			name: "bezichtigingen", service: "property",
			why: "of 170 reads of viewings three join the home, which the manual of choosing calls a join that runs rarely",
			colls: []coll{
				{name: "bezichtigingen", n: 1500, indexes: []string{"dag"}, doc: func(g gen, i int) bson.D {
					return d("_id", oid(107, i), "dag", i%75, "huis", oid(108, i%300), "wie", g.name())
				}},
				{name: "huizen", n: 300, doc: func(g gen, i int) bson.D {
					return d("_id", oid(108, i), "straat", g.text(16), "tuin", g.text(200), "prijs", g.IntN(900_000))
				}},
			},
			traffic: []requests{
				{3, func(s *session, _ int) {
					s.aggregate("bezichtigingen", match("dag", s.IntN(75)), join("huizen", "huis", "_id", "h"),
						d("$project", d("wie", 1, "h.straat", 1)))
				}},
				{167, func(s *session, _ int) { s.find("bezichtigingen", d("dag", s.IntN(75)), by{}) }},
				{60, func(s *session, _ int) { s.one("huizen", d("_id", oid(108, s.IntN(300))), nil) }},
			},
		},
		{
			name: "lab_results", service: "lab", harm: "extref",
			why: "a result is shown with the whole method, a dozen fields and a long text that changes, and not with a few fields",
			colls: []coll{
				{name: "lab_results", n: 1500, indexes: []string{"patient_no"}, doc: func(g gen, i int) bson.D {
					return d("_id", uuid(48, i), "patient_no", i%150, "method", i%40, "value", g.Float64())
				}},
				{name: "methods", n: 40, doc: func(g gen, i int) bson.D {
					doc := reactor(oid(109, i), i, i, g)
					doc[0].Value = i
					return append(doc, bson.E{Key: "procedure", Value: g.text(4000)}, bson.E{Key: "reagents", Value: g.text(500)})
				}},
			},
			traffic: []requests{
				{100, func(s *session, _ int) {
					s.aggregate("lab_results", match("patient_no", s.IntN(150)), join("methods", "method", "_id", "method"),
						d("$unwind", "$method"))
				}},
				{80, func(s *session, _ int) {
					s.update("methods", d("_id", s.IntN(40)), d("$set", d("procedure", s.text(4000))))
				}},
			},
		},
		{
			name: "commandes", service: "theatre", fine: "extref",
			why: "the page of one order reads its customer whole, two reads by _id for one page, and there is no loop and no join",
			colls: []coll{
				{name: "commandes", n: 1200, doc: func(g gen, i int) bson.D {
					return d("_id", int64(i),
						"acheteur", oid(110, i%500), "total", g.money())
				}},
				{name: "acheteurs", n: 500, doc: func(g gen, i int) bson.D {
					return d("_id", oid(110, i), "nom", g.name(), "adresse", g.text(60), "cartes", a{g.text(8)},
						"profil", g.text(300), "avoir", g.IntN(90))
				}},
			},
			traffic: []requests{
				{60, func(s *session, _ int) {
					order := s.one("commandes", d("_id", int64(s.IntN(1200))), nil)
					s.one("acheteurs", d("_id", order["acheteur"]), nil)
				}},
				{100, func(s *session, _ int) { s.one("commandes", d("_id", int64(s.IntN(1200))), nil) }},
				{80, func(s *session, _ int) { s.one("acheteurs", d("_id", oid(110, s.IntN(500))), nil) }},
				{60, func(s *session, _ int) {
					s.update("acheteurs", d("_id", oid(110, s.IntN(500))), d("$inc", d("avoir", -1)))
				}},
			},
		},
	}
}
