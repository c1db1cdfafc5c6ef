package labels_test

import "go.mongodb.org/mongo-driver/v2/bson"

// Large documents: split.
func sixthHeavyCases() []labelled {
	return []labelled{
		{
			name: "parcelas", service: "cemetery", pays: "split",
			why: "the list of plots reads number and name out of documents of four kilobytes of deeds, which only one page opens",
			colls: []coll{{"parcelas", 800, []string{"sector"}, func(g gen, i int) bson.D {
				return d("_id", serial("P", i), "sector", i%20, "familia", g.name(), "escritura", g.text(4000),
					"plano", g.blob(800))
			}}},
			traffic: []requests{
				{150, func(s *session, _ int) {
					s.find("parcelas", d("sector", s.IntN(20)), by{fields: keep("sector", "familia"), sort: d("familia", 1)})
				}},
				{10, func(s *session, _ int) { s.one("parcelas", d("_id", serial("P", s.IntN(800))), nil) }},
			},
		},
		{
			name: "creatives", service: "adserver", pays: "split",
			why: "each choice of a banner reads size and bid of all candidates, whose markup and picture of 5 kB only the winner needs",
			colls: []coll{{"creatives", 700, []string{"size"}, func(g gen, i int) bson.D {
				return d("_id", int64(i), "size", g.of("300x250", "728x90", "160x600"), "bid", g.between(1, 90),
					"html", g.text(3000),
					"image", g.blob(2000))
			}}},
			traffic: []requests{
				{140, func(s *session, _ int) {
					s.find("creatives", d("size", s.of("300x250",
						"728x90", "160x600")), by{fields: keep("size", "bid"), limit: 100})
				}},
				{12, func(s *session, _ int) { s.one("creatives", d("_id", int64(s.IntN(700))), nil) }},
			},
		},
		{
			name: "modelliLift", service: "elevators", pays: "split",
			why: "technicians list the types by maker, and the manual of 6 kB inside is opened once in fifteen lists",
			colls: []coll{{"modelliLift", 500, []string{"ditta"}, func(g gen, i int) bson.D {
				return d("_id", uuid(62, i), "ditta", key("D", i%25), "sigla", g.text(8), "portata", g.between(3, 20)*75,
					"manuale", g.text(5000), "schema", d("fili", g.text(900), "relè", g.text(300)))
			}}},
			traffic: []requests{
				{150, func(s *session, _ int) {
					s.linq("modelliLift", d("ditta", key("D", s.IntN(25))), project("sigla", 1, "portata", 1))
				}},
				{10, func(s *session, _ int) { s.first("modelliLift", d("_id", uuid(62, s.IntN(500)))) }},
			},
		},
		{
			name: "rezepty_chleba", service: "bakery", pays: "split",
			why: "the planner reads name, oven and minutes of all breads, and only the baker opens the steps with the photograph",
			colls: []coll{{"rezepty_chleba", 400, []string{"piec"}, func(g gen, i int) bson.D {
				return d("_id", oid(65, i), "nazwa", g.text(14), "piec", i%8, "minuty", g.between(20, 70), "kroki", g.text(2500),
					"zdjęcie", g.blob(4000))
			}}},
			traffic: []requests{
				{140, func(s *session, _ int) {
					s.find("rezepty_chleba", d("piec", s.IntN(8)), by{fields: omit("kroki", "zdjęcie")})
				}},
				{9, func(s *session, _ int) { s.one("rezepty_chleba", d("_id", oid(65, s.IntN(400))), nil) }},
			},
		},
		{
			name: "bocetos", service: "tattoo", pays: "split",
			why: "the gallery lists title and style, and the drawing of 7 kB beside them is read for a single sketch alone",
			colls: []coll{{"bocetos", 500, []string{"estilo,título"}, func(g gen, i int) bson.D {
				return d("_id", meteor('b', i), "título", g.text(12), "estilo", key("e", i%12), "dibujo", g.blob(7000),
					"horas", g.between(1, 9))
			}}},
			traffic: []requests{
				{150, func(s *session, _ int) {
					s.find("bocetos", d("estilo", key("e", s.IntN(12))), by{sort: d("título", 1), fields: keep("título",
						"horas"), limit: 40})
				}},
				{12, func(s *session, _ int) { s.one("bocetos", d("_id", meteor('b', s.IntN(500))), keep("dibujo")) }},
			},
		},
		{
			name: "ulice", service: "waste", pays: "split",
			why: "the map reads street and day of a district, and the permits of 5 kB are for one clerk at the end of a year",
			colls: []coll{{"ulice", 600, []string{"čtvrť"}, func(g gen, i int) bson.D {
				return d("_id", i, "čtvrť", int32(i%15), "název", g.text(14), "den", g.of("po", "út", "st"),
					"povolení", g.text(4600),
					"historie", g.text(900))
			}}},
			traffic: []requests{
				{140, func(s *session, _ int) {
					s.find("ulice", d("čtvrť", int32(s.IntN(15))), by{fields: keep("název", "den")})
				}},
				{8, func(s *session, _ int) { s.one("ulice", d("_id", s.IntN(600)), nil) }},
			},
		},
		{
			name: "obits", service: "cemetery", harm: "split",
			why: "nearly every read opens one notice whole, so two documents would cost twice as much as one",
			colls: []coll{{"obits", 500, nil, func(g gen, i int) bson.D {
				return d("_id", serial("O", i), "name", g.name(), "died", at(i), "text", g.text(4000))
			}}},
			traffic: []requests{
				{160, func(s *session, _ int) { s.one("obits", d("_id", serial("O", s.IntN(500))), nil) }},
				{4, func(s *session, _ int) {
					s.find("obits", bson.D{}, by{fields: keep("name"), sort: d("_id", 1), limit: 20})
				}},
			},
		},
		{
			name: "kundkort", service: "tailor",
			why: "the fields that the list leaves out are two hundred bytes, for which a projection is enough",
			colls: []coll{{"kundkort", 900, []string{"stad"}, func(g gen, i int) bson.D {
				return d("_id", oid(66, i), "namn", g.name(), "stad", g.city(), "mått", d("midja", 80, "arm", 60,
					"ben", 90), "notis", g.text(120))
			}}},
			traffic: []requests{
				{140, func(s *session, _ int) {
					s.find("kundkort", d("stad", s.city()), by{fields: keep("namn", "stad"), limit: 50})
				}},
				{20, func(s *session, _ int) { s.one("kundkort", d("_id", oid(66, s.IntN(900))), nil) }},
			},
		},
		{
			name: "ads_texts", service: "adserver", harm: "split",
			why: "every list renders the texts, which are most of the bytes, so no read leaves them out",
			colls: []coll{{"ads_texts", 400, []string{"lang"}, func(g gen, i int) bson.D {
				return d("_id", i, "lang", key("l", i%20), "head", g.text(30), "body", g.text(3000))
			}}},
			traffic: []requests{
				{140, func(s *session, _ int) { s.find("ads_texts", d("lang", key("l", s.IntN(20))), by{limit: 20}) }},
				{10, func(s *session, _ int) { s.one("ads_texts", d("_id", s.IntN(400)), nil) }},
			},
		},
		{
			name: "permits", service: "drones",
			why: "scripts read one document by key and change it, and there is no list that could read less",
			colls: []coll{{"permits", 400, nil, func(g gen, i int) bson.D {
				return d("_id", ulid("P", i), "holder", g.name(), "until", at(i), "scan", g.blob(3000))
			}}},
			traffic: []requests{
				{90, func(s *session, _ int) { s.one("permits", d("_id", ulid("P", s.IntN(400))), nil) }},
				{60, func(s *session, i int) {
					s.update("permits", d("_id", ulid("P", s.IntN(400))), d("$set", d("until", at(i), "scan", s.blob(3000))))
				}},
			},
		},
	}
}
