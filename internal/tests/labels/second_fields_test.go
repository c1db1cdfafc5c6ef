package labels_test

import (
	"go.mongodb.org/mongo-driver/v2/bson"
)

var (
	solvents = []string{"water", "ethanol", "acetone", "hexane", "toluene", "ether", "dmso", "benzene", "pyridine",
		"thf", "dioxane", "glycerol"}
	countries = []string{"DE", "AT", "CH", "FR", "IT", "ES", "PT", "NL", "BE", "DK", "SE", "FI", "PL", "CZ"}
	comforts  = []string{"zwembad", "sauna", "lift", "zolder", "kelder", "garage", "serre", "laadpaal", "zonnepanelen",
		"airco", "domotica", "haard"}
	cities  = []string{"paris", "lyon", "lille", "nantes", "nice", "rennes", "dijon", "metz", "tours", "brest"}
	numbers = []string{"gols", "passes", "faltas", "cartoes", "chutes", "defesas", "cruzes", "desarmes", "minutos",
		"vitorias"}
	questions = []string{"osoite", "puhelin", "syntynyt", "ammatti", "perhe", "tulot", "vuokra", "lapset", "auto", "lisatiedot"}
	traits    = []string{"matiere", "couleur", "taille", "epoque", "poids", "etat"}
)

// Many similar fields: attribute, and what only has many fields.
func secondFieldCases() []labelled {
	return []labelled{
		{
			name: "compounds", service: "lab", pays: "attribute",
			why: "solubility in a dozen solvents, of which a compound has three or four, each with an index of its own",
			colls: []coll{{name: "compounds", n: 1500, indexes: prefixed("sol_", solvents), doc: func(g gen, i int) bson.D {
				doc := d("_id", uuid(30, i), "cas", key("cas", i), "name", g.text(20))
				for _, s := range g.some(solvents, g.between(3, 4)) {
					doc = append(doc, bson.E{Key: "sol_" + s, Value: float64(g.between(1, 4000)) / 10})
				}
				return doc
			}}},
			traffic: []requests{
				{120, func(s *session, _ int) {
					s.find("compounds", d("sol_"+s.of(solvents...), d("$gte", 300, "$lt", 320)), by{})
				}},
				{15, func(s *session, _ int) {
					s.update("compounds", d("_id", uuid(30, s.IntN(1500))), d("$set", d("sol_"+s.of(solvents...), s.money())))
				}},
			},
		},
		{
			name: "saatgut", service: "farm", pays: "attribute",
			why: "the year of approval in each of 14 countries, in a field for each country, sparse, each with an index",
			colls: []coll{{name: "saatgut", n: 1500, indexes: prefixed("zugelassen_", countries), doc: func(g gen, i int) bson.D {
				doc := d("_id", key("sorte", i), "art", g.of("Weizen", "Raps", "Mais"))
				for _, c := range g.some(countries, g.between(2, 5)) {
					doc = append(doc, bson.E{Key: "zugelassen_" + c, Value: g.between(1990, 2025)})
				}
				return doc
			}}},
			traffic: []requests{
				{120, func(s *session, _ int) {
					s.find("saatgut", d("zugelassen_"+s.of(countries...), s.between(1990, 2025)), by{limit: 20})
				}},
			},
		},
		{
			name: "forfaits", service: "rental", pays: "attribute",
			why: "a tariff has a price in the few of ten towns that sell it, and each town's prices have an index",
			colls: []coll{{name: "forfaits", n: 1200, indexes: prefixed("prix_", cities), doc: func(g gen, i int) bson.D {
				doc := d("_id", oid(52, i), "nom", g.text(16), "jours", g.between(1, 365))
				for _, c := range g.some(cities, g.between(1, 4)) {
					doc = append(doc, bson.E{Key: "prix_" + c, Value: g.between(100, 9900)})
				}
				return doc
			}}},
			traffic: []requests{
				{120, func(s *session, _ int) {
					field := "prix_" + s.of(cities...)
					s.find("forfaits", d(field, d("$lt", 600)), by{sort: d(field, 1), limit: 10})
				}},
			},
		},
		{
			name: "kenmerken", service: "property", pays: "attribute", fine: "computed",
			why: "agents name the comforts of homes, which have a few each; each has an index, and the search counts homes by comfort",
			colls: []coll{{name: "kenmerken", n: 1500, indexes: prefixed("comfort.", comforts), doc: func(g gen, i int) bson.D {
				has := bson.D{}
				for _, c := range g.some(comforts, g.between(1, 5)) {
					has = append(has, bson.E{Key: c, Value: g.of("nieuw", "goed", "matig")})
				}
				return d("_id", i, "adres", g.text(24), "comfort", has)
			}}},
			traffic: []requests{
				{130, func(s *session, _ int) {
					s.find("kenmerken", d("comfort."+s.of(comforts...), s.of("nieuw", "matig")), by{limit: 25})
				}},
				{20, func(s *session, _ int) {
					s.aggregate("kenmerken", d("$project", d("kv", d("$objectToArray", "$comfort"))), d("$unwind", "$kv"),
						d("$group", d("_id", "$kv.k", "n", d("$sum", 1))))
				}},
				{10, func(s *session, _ int) {
					s.update("kenmerken", d("_id", s.IntN(1500)), d("$set", d("comfort."+s.of(comforts...), "goed")))
				}},
			},
		},
		{
			name: "hitlisten", service: "radio", pays: "attribute",
			why: "a song's best place in the charts of the few of 14 countries where it was listed, each country with an index",
			colls: []coll{{name: "hitlisten", n: 1400, indexes: prefixed("platz", countries), doc: func(g gen, i int) bson.D {
				doc := d("_id", uuid(31, i), "titel", g.text(24), "__v", 0)
				for _, c := range g.some(countries, g.between(1, 5)) {
					doc = append(doc, bson.E{Key: "platz" + c, Value: g.between(1, 100)})
				}
				return doc
			}}},
			traffic: []requests{
				{120, func(s *session, _ int) {
					s.aggregate("hitlisten", match("platz"+s.of(countries...), d("$lte", 3)), d("$limit", 20))
				}},
			},
		},
		{
			name: "cranes", service: "harbor",
			why: "all cranes have the same six fields, so there is nothing sparse to gather",
			colls: []coll{{name: "cranes", n: 1200, indexes: []string{"max_reach", "max_load", "max_wind", "max_height",
				"max_speed", "max_tilt"},
				doc: func(g gen, i int) bson.D {
					return d("_id", i, "berth", i%40, "max_reach", g.between(20, 70), "max_load", g.between(10, 120),
						"max_wind", g.between(8, 30),
						"max_height", g.between(20, 60), "max_speed", g.between(1, 30), "max_tilt", g.between(1, 9))
				}}},
			traffic: []requests{
				{120, func(s *session, _ int) {
					s.find("cranes", d("max_"+s.of("reach", "load", "wind", "height"), d("$gte", 25)), by{limit: 10})
				}},
			},
		},
		{
			name: "estatisticas", service: "league",
			why: "each of ten numbers is in each document, and only the player is searched",
			colls: []coll{{name: "estatisticas", n: 1200, indexes: []string{"jogador"}, doc: func(g gen, i int) bson.D {
				doc := d("_id", oid(53, i), "jogador", i)
				for _, name := range numbers {
					doc = append(doc, bson.E{Key: "n_" + name, Value: g.IntN(100)})
				}
				return doc
			}}},
			traffic: []requests{
				{120, func(s *session, _ int) { s.one("estatisticas", d("jogador", s.IntN(1200)), nil) }},
			},
		},
		{
			name: "accessoires", service: "theatre",
			why: "the attributes already are an array of keys and values with one index",
			colls: []coll{{name: "accessoires", n: 1200, indexes: []string{"traits.k,traits.v"}, doc: func(g gen, i int) bson.D {
				return d("_id", uuid(32, i), "nom", g.text(18), "traits", list(g.between(2, 5), func(j int) any {
					return d("k", traits[(i+j)%len(traits)], "v", g.IntN(50))
				}))
			}}},
			traffic: []requests{
				{120, func(s *session, _ int) {
					s.find("accessoires", d("traits", d("$elemMatch", d("k", s.of(traits...), "v", s.IntN(50)))), by{})
				}},
			},
		},
		{
			name: "lomakkeet", service: "council",
			why: "the optional fields of forms are sparse, but nobody queries them, so an index on them would serve nobody",
			colls: []coll{{name: "lomakkeet", n: 1200, indexes: []string{"tunnus"}, doc: func(g gen, i int) bson.D {
				doc := d("_id", oid(54, i), "tunnus", key("L", i), "jatetty", at(i))
				for _, name := range g.some(questions, 4) {
					doc = append(doc, bson.E{Key: "kentta_" + name, Value: g.text(12)})
				}
				return doc
			}}},
			traffic: []requests{
				{130, func(s *session, _ int) { s.one("lomakkeet", d("tunnus", key("L", s.IntN(1200))), nil) }},
			},
		},
		{
			name: "oldtimers", service: "auction", harm: "attribute",
			why: "searches name year, maker and body at once, which a compound index answers faster than an array can",
			colls: []coll{{name: "oldtimers", n: 1500, indexes: []string{"car_maker,car_body,car_year", "car_body,car_year"},
				doc: func(g gen, i int) bson.D {
					doc := d("_id", oid(55, i), "title", g.text(24), "car_year", g.between(1900, 1975), "car_maker", key("M", g.IntN(40)))
					if i%10 != 0 {
						doc = append(doc, bson.E{Key: "car_body", Value: g.of("coupe", "roadster", "van")})
					}
					return doc
				}}},
			traffic: []requests{
				{130, func(s *session, _ int) {
					s.find("oldtimers", d("car_maker", key("M", s.IntN(40)), "car_body", s.of("coupe", "van"),
						"car_year", d("$lt", 1950)), by{})
				}},
			},
		},
	}
}
