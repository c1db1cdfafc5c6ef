package labels_test

import (
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
)

var (
	materials = []string{"oro", "argento", "bronzo", "ferro", "legno", "avorio", "vetro", "seta", "lana", "marmo",
		"gesso", "cera"}
	ratings = []string{"tapMax", "tapMin", "aceite", "sf6", "fase", "impedancia", "ruido", "perdidas", "relacion",
		"bobina", "grupo", "frio", "bil"}
	nutrients = []string{"vitA", "vitB6", "vitB12", "vitC", "vitD", "vitE", "vitK", "järn", "zink", "jod", "selen", "kalcium"}
	gear      = []string{"merdiven", "pompa", "kopuk", "vinc", "jenerator", "projektor", "kesici", "hortum", "maske",
		"dron", "kamera", "tank"}
	shops = []string{"hanbai", "rakuten", "konbini", "eki", "tsuhan", "kaijo", "fanclub", "kaigai", "hyakka",
		"shoten", "ichiba"}
	languages = []string{"da", "sv", "nb", "fi", "de", "nl", "fr", "pl", "en", "is", "fo", "et"}
)

// scattered are some of many fields, each with a value.
func (g gen) scattered(prefix string, names []string, n int, value func() any) (out bson.D) {
	for _, name := range g.some(names, n) {
		out = append(out, bson.E{Key: prefix + name, Value: value()})
	}
	return out
}

func columns(prefix string, names []string) (out []string) {
	for _, name := range names {
		out = append(out, prefix+name)
	}
	return out
}

// Pages, and many similar fields: paging, attribute.
func thirdPageCases() []labelled {
	return []labelled{
		{
			name: "kouen", service: "festival", pays: "paging",
			why: "the archive of concerts is read to its end by mongoose-paginate, so page 200 walks over 4,000 documents",
			colls: []coll{{name: "kouen", n: 6000, indexes: []string{"日付"}, doc: func(g gen, i int) bson.D {
				return d("_id", oid(20, i), "日付", at(i*2), "演者", g.name(), "会場", g.city())
			}}},
			traffic: []requests{
				{110, func(s *session, _ int) {
					s.count("kouen", bson.D{})
					s.find("kouen", bson.D{}, by{sort: d("日付", -1), skip: s.IntN(290) * 20, limit: 20})
				}},
			},
		},
		{
			name: "personer", service: "genealogy", pays: "paging",
			why: "people are leafed through by name in an aggregation, and half of the pages skip 2,500 and more",
			colls: []coll{{name: "personer", n: 5500, indexes: []string{"efternavn,fornavn"}, doc: func(g gen, i int) bson.D {
				return d("_id", uuid(21, i), "efternavn", key("navn", g.IntN(900)), "fornavn", g.name(),
					"født", 1600+g.IntN(300), "sogn", g.city())
			}}},
			traffic: []requests{
				{120, func(s *session, _ int) {
					s.aggregate("personer", match("født", d("$gte", 1600)), d("$sort", d("efternavn", 1, "fornavn", 1)),
						d("$skip", s.IntN(105)*50), d("$limit", 50))
				}},
			},
		},
		{
			name: "tickets", service: "parking", pays: "paging",
			why: "a job exports all tickets in chunks of 500 by skip, and so reads each a dozen times",
			colls: []coll{{name: "tickets", n: 6000, doc: func(g gen, i int) bson.D {
				return d("_id", int64(i), "plate", key("B", g.IntN(2000)), "in", at(i/4), "cents", g.between(100, 4000))
			}}},
			traffic: []requests{
				{10, func(s *session, _ int) {
					for chunk := range 12 {
						s.find("tickets", bson.D{}, by{sort: d("_id", 1), skip: chunk * 500, limit: 500})
					}
				}},
			},
		},
		{
			name: "olaylar", service: "fire", pays: "paging", fine: "computed",
			why: "the list of incidents counts and skips in one $facet, as mongoose-aggregate-paginate writes it, as far as 4,900",
			colls: []coll{{name: "olaylar", n: 5000, indexes: []string{"zaman"}, doc: func(g gen, i int) bson.D {
				return d("_id", i, "zaman", at(i), "ilce", g.city(), "tur", g.of("yangın", "kaza", "sel"), "ekip", g.IntN(40))
			}}},
			traffic: []requests{
				{100, func(s *session, _ int) {
					s.aggregate("olaylar", match("zaman", d("$gte", at(0))), d("$sort", d("zaman", -1)),
						d("$facet", d("docs", a{d("$skip", s.IntN(98)*50), d("$limit", 50)}, "total", a{d("$count", "n")})))
				}},
			},
		},
		{
			name: "meldungen", service: "railway", pays: "paging",
			why: "each line has 2,500 messages, and dispatchers page back through those of one line, past 1,000 in most requests",
			colls: []coll{{name: "meldungen", n: 7500, indexes: []string{"strecke,zeit"}, doc: func(g gen, i int) bson.D {
				return d("_id", oid(22, i), "strecke", i%3, "zeit", at(i/3), "text", g.text(40), "_class", "db.Meldung")
			}}},
			traffic: []requests{
				{130, func(s *session, i int) {
					s.find("meldungen", d("strecke", i%3), by{sort: d("zeit", -1), skip: s.IntN(120) * 20, limit: 20})
				}},
			},
		},
		{
			name: "actes", service: "vet", pays: "paging",
			why: "accounting reads all acts by client and date, page after page, and the last pages skip 5,000",
			colls: []coll{{name: "actes", n: 5500, indexes: []string{"client.nom,date"}, doc: func(g gen, i int) bson.D {
				return d("_id", oid(23, i), "client", d("nom", key("c", g.IntN(800)), "ville", g.city()),
					"date", at(i), "prix", g.money())
			}}},
			traffic: []requests{
				{120, func(s *session, i int) {
					s.find("actes", bson.D{}, by{sort: d("client.nom", 1, "date", 1), skip: i % 108 * 50, limit: 50,
						fields: omit("__v")})
				}},
			},
		},
		{
			name: "observasjoner", service: "weather", pays: "paging",
			why: "a form of reports by the public has page numbers up to 300, newest first",
			colls: []coll{{name: "observasjoner", n: 6000, indexes: []string{"godkjent,sendt"}, doc: func(g gen, i int) bson.D {
				return d("_id", ulid("OB", i), "godkjent", i%20 != 0, "sendt", at(i), "sted", g.city(),
					"vær", g.of("snø", "regn", "sol"))
			}}},
			traffic: []requests{
				{130, func(s *session, _ int) {
					s.find("observasjoner", d("godkjent", true), by{sort: d("sendt", -1), skip: s.IntN(280) * 20, limit: 20})
				}},
			},
		},
		{
			name: "gifts", service: "aid",
			why: "nobody goes past page ten of a list of 6,000, and ten pages are a skip of 200 at most",
			colls: []coll{{name: "gifts", n: 6000, indexes: []string{"on"}, doc: func(g gen, i int) bson.D {
				return d("_id", i, "on", at(i), "by", g.name(), "cents", g.IntN(90_000))
			}}},
			traffic: []requests{
				{140, func(s *session, _ int) {
					s.find("gifts", bson.D{}, by{sort: d("on", -1), skip: s.near(11) * 20, limit: 20})
				}},
			},
		},
		{
			name: "soal", service: "quiz",
			why: "the skip draws a question by chance, in no order, so there is no next page",
			colls: []coll{{name: "soal", n: 5000, doc: func(g gen, i int) bson.D {
				return d("_id", oid(24, i), "teks", g.text(50), "kunci", g.of("a", "b", "c", "d"))
			}}},
			traffic: []requests{
				{130, func(s *session, _ int) { s.find("soal", bson.D{}, by{skip: s.IntN(5000), limit: 1}) }},
			},
		},
		{
			name: "złoża", service: "mine",
			why: "the whole list has 280 documents, for which skip is enough",
			colls: []coll{{name: "złoża", n: 280, indexes: []string{"nazwa"}, doc: func(g gen, i int) bson.D {
				return d("_id", i, "nazwa", key("z", i), "surowiec", g.of("miedź", "sól", "węgiel"), "koniec", 2026+i%40)
			}}},
			traffic: []requests{
				{120, func(s *session, _ int) {
					s.find("złoża", bson.D{}, by{sort: d("nazwa", 1), skip: s.IntN(14) * 20, limit: 20})
				}},
			},
		},
		{
			name: "etichette", service: "museum",
			why: "each page already begins after the last _id of the one before",
			colls: []coll{{name: "etichette", n: 5000, doc: func(g gen, i int) bson.D {
				return d("_id", oid(25, i), "lingua", g.of("it", "en", "de"), "testo", g.text(60))
			}}},
			traffic: []requests{
				{140, func(s *session, _ int) {
					s.find("etichette", d("_id", d("$gt", oid(25, s.IntN(4900)))), by{sort: d("_id", 1), limit: 50})
				}},
			},
		},
		{
			name: "menyer", service: "recipes", harm: "paging",
			why: "the order is by an array of tags, and pages by tokens end with ErrUnsortable at a document with one",
			colls: []coll{{name: "menyer", n: 5000, indexes: []string{"taggar"}, doc: func(g gen, i int) bson.D {
				return d("_id", i, "namn", g.text(15), "taggar", g.some(vocabulary, 3))
			}}},
			traffic: []requests{
				{110, func(s *session, _ int) {
					s.find("menyer", bson.D{}, by{sort: d("taggar", 1), skip: s.IntN(240) * 20, limit: 20})
				}},
			},
		},
		{
			name: "consumidores", service: "power", fine: "paging|computed",
			why: "the order is a score that each request computes for all, so a page behind a token has to compute it as well",
			colls: []coll{{name: "consumidores", n: 5000, doc: func(g gen, i int) bson.D {
				return d("_id", i, "nombre", g.name(), "deuda", g.IntN(900), "meses", g.IntN(24))
			}}},
			traffic: []requests{
				{50, func(s *session, i int) {
					s.aggregate("consumidores", d("$addFields", d("riesgo", d("$add", a{d("$multiply", a{"$deuda",
						i%7 + 1}), "$meses"}))),
						d("$sort", d("riesgo", -1, "_id", 1)), d("$skip", s.IntN(90)*50), d("$limit", 50))
				}},
			},
		},
		{
			name: "oggetti", service: "museum", pays: "attribute",
			why: "twelve materials are fields with an index each, and an object has three of them",
			colls: []coll{{name: "oggetti", n: 1500, indexes: columns("grammi_", materials), doc: func(g gen, i int) bson.D {
				return append(d("_id", oid(26, i), "nome", g.text(15)), g.scattered("grammi_", materials, 3,
					func() any { return g.IntN(900) })...)
			}}},
			traffic: []requests{
				{150, func(s *session, _ int) {
					s.find("oggetti", d("grammi_"+s.of(materials...), d("$gte", s.IntN(900))), by{limit: 20})
				}},
				{20, func(s *session, _ int) {
					s.update("oggetti", d("_id", oid(26, s.IntN(1500))), d("$set", d("grammi_"+s.of(materials...),
						s.IntN(900))))
				}},
			},
		},
		{
			name: "transformadores", service: "power", pays: "attribute",
			why: "thirteen ratings below one field have an index each, and a transformer has the three of its type",
			colls: []coll{{name: "transformadores", n: 1500, indexes: columns("datos.", ratings), doc: func(g gen,
				i int) bson.D {
				return d("_id", key("TR", i), "marca", g.name(), "datos", g.scattered("", ratings, 3,
					func() any { return g.IntN(500) }))
			}}},
			traffic: []requests{
				{150, func(s *session, _ int) {
					from := s.IntN(400)
					s.find("transformadores", d("datos."+s.of(ratings...), d("$gte", from, "$lt", from+100)), by{limit: 30})
				}},
			},
		},
		{
			name: "livsmedel", service: "recipes", pays: "attribute",
			why: "analyses give a food three or four of twelve vitamins and minerals, each of which is a field with an index",
			colls: []coll{{name: "livsmedel", n: 1600, indexes: nutrients, doc: func(g gen, i int) bson.D {
				return append(d("_id", int64(i), "namn", g.text(15), "grupp", g.IntN(20)),
					g.scattered("", nutrients, g.between(3, 4), func() any { return g.money() })...)
			}}},
			traffic: []requests{
				{160, func(s *session, _ int) {
					s.aggregate("livsmedel", match(s.of(nutrients...), d("$gt", s.money())), d("$limit", 25))
				}},
			},
		},
		{
			name: "araclar", service: "fire", pays: "attribute",
			why: "dispatchers look for a vehicle with a certain gear, and each of twelve kinds is a field with an index and mostly missing",
			colls: []coll{{name: "araclar", n: 1400, indexes: columns("ekipman.", gear), doc: func(g gen, i int) bson.D {
				return d("_id", uuid(27, i), "plaka", key("34", i), "ekipman", g.scattered("", gear, 2,
					func() any { return g.between(1, 9) }))
			}}},
			traffic: []requests{
				{150, func(s *session, _ int) {
					s.find("araclar", d("ekipman."+s.of(gear...), d("$gte", s.between(1, 9))), by{limit: 10})
				}},
			},
		},
		{
			name: "goods", service: "festival", pays: "attribute",
			why: "a price of each of eleven shops is a field with an index, and most goods are sold in two or three",
			colls: []coll{{name: "goods", n: 1500, indexes: columns("kakaku_", shops), doc: func(g gen, i int) bson.D {
				return append(d("_id", oid(28, i), "品名", g.text(12)),
					g.scattered("kakaku_", shops, g.between(2, 3), func() any { return g.between(3, 90) * 100 })...)
			}}},
			traffic: []requests{
				{150, func(s *session, _ int) {
					shop := "kakaku_" + s.of(shops...)
					s.find("goods", d(shop, d("$lte", s.between(3, 90)*100)), by{sort: d(shop, 1), limit: 20})
				}},
			},
		},
		{
			name: "stednavne", service: "genealogy", pays: "attribute",
			why: "a place has its name in two or three of twelve languages, and each language is a field with an index",
			colls: []coll{{name: "stednavne", n: 1800, indexes: columns("navn_", languages), doc: func(g gen, i int) bson.D {
				return append(d("_id", i, "amt", g.IntN(14)),
					g.scattered("navn_", languages, g.between(2, 3), func() any { return key("by", g.IntN(4000)) })...)
			}}},
			traffic: []requests{
				{170, func(s *session, _ int) {
					s.find("stednavne", d("navn_"+s.of(languages...), key("by", s.IntN(4000))), by{})
				}},
			},
		},
		{
			name: "fiches", service: "vet",
			why: "five fields that each record has are five ordinary indexes",
			colls: []coll{{name: "fiches", n: 1500, indexes: []string{"espece", "race", "sexe", "poids", "age"},
				doc: func(g gen, i int) bson.D {
					return d("_id", i, "espece", g.of("chien", "chat", "lapin"), "race", key("r", g.IntN(80)),
						"sexe", g.of("m", "f"),
						"poids", g.between(1, 60), "age", g.IntN(18))
				}}},
			traffic: []requests{
				{60, func(s *session, _ int) { s.find("fiches", d("poids", d("$gt", s.between(20, 60))), by{limit: 20}) }},
				{60, func(s *session, _ int) { s.find("fiches", d("race", key("r", s.IntN(80))), by{limit: 20}) }},
				{60, func(s *session, _ int) { s.find("fiches", d("age", s.IntN(18)), by{limit: 20}) }},
			},
		},
		{
			name: "parametry", service: "mine",
			why: "the parameters already are one array of names and values under one index",
			colls: []coll{{name: "parametry", n: 1500, indexes: []string{"cechy.k,cechy.v"}, doc: func(g gen, i int) bson.D {
				return d("_id", i, "maszyna", g.IntN(300), "cechy", list(3, func(j int) any {
					return d("k", key("c", (i+j*5)%13), "v", g.IntN(100))
				}))
			}}},
			traffic: []requests{
				{150, func(s *session, _ int) {
					s.find("parametry", d("cechy", d("$elemMatch", d("k", key("c", s.IntN(13)),
						"v", d("$gt", s.IntN(100))))), by{limit: 20})
				}},
			},
		},
		{
			name: "enquiries", service: "aid",
			why: "three kinds share the collection, and their few fields are no similar ones: each query is for one kind and one field",
			colls: []coll{{name: "enquiries", n: 1500, indexes: []string{"kind,at"}, doc: func(g gen, i int) bson.D {
				switch i % 3 {
				case 0:
					return d("_id", i, "kind", "visit", "at", at(i), "guests", g.between(1, 20), "lunch", true)
				case 1:
					return d("_id", i, "kind", "press", "at", at(i), "paper", g.name(), "deadline", at(i+40))
				}
				return d("_id", i, "kind", "legacy", "at", at(i), "notary", d("name", g.name(), "city", g.city()))
			}}},
			traffic: []requests{
				{60, func(s *session, _ int) {
					s.find("enquiries", d("kind", "visit", "guests", d("$gt", 5)), by{limit: 20})
				}},
				{60, func(s *session, _ int) {
					s.find("enquiries", d("kind", "press", "at", d("$gt", at(s.IntN(1500)))), by{limit: 20})
				}},
			},
		},
		{
			name: "profiler", service: "weather", harm: "attribute",
			why: "a profile has some 300 of 900 levels as fields, and an array of 300 entries would be rewritten by each write",
			colls: []coll{{name: "profiler", n: 300, indexes: []string{"h100", "h200", "h300", "h400", "h500", "h600"},
				doc: func(g gen, i int) bson.D {
					doc := d("_id", i, "stasjon", i%40, "tid", at(i))
					for h := 100 + g.IntN(3); h < 1000; h += 3 {
						doc = append(doc, bson.E{Key: fmt.Sprint("h", h), Value: g.IntN(90)})
					}
					return doc
				}}},
			traffic: []requests{
				{100, func(s *session, _ int) {
					s.find("profiler", d(s.of("h100", "h200", "h300", "h400"), d("$gt", s.IntN(90))), by{limit: 5})
				}},
				{60, func(s *session, _ int) {
					s.update("profiler", d("_id", s.IntN(300)), d("$set", d("h100", s.IntN(90))))
				}},
			},
		},
		{
			name: "wagen", service: "railway",
			why: "most of thirty remarks are missing in a wagon, but they are shown with it, and no query or index names one",
			colls: []coll{{name: "wagen", n: 1500, indexes: []string{"nummer"}, doc: func(g gen, i int) bson.D {
				doc := d("_id", i, "nummer", key("W", i))
				for range 3 {
					doc = append(doc, bson.E{Key: fmt.Sprint("vermerk", len(doc)*10+g.IntN(10)), Value: g.text(20)})
				}
				return doc
			}}},
			traffic: []requests{
				{130, func(s *session, _ int) { s.one("wagen", d("nummer", key("W", s.IntN(1500))), nil) }},
			},
		},
	}
}
