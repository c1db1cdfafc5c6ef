package labels_test

import (
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// Lists in documents, and large documents: outlier, subset, split.
func thirdListCases() []labelled {
	return []labelled{
		{
			name: "appeals", service: "aid", pays: "outlier",
			why: "an appeal has up to 40 donors and is shown with all of them, and five that went round the world have 5,000",
			colls: []coll{{name: "appeals", n: 1000, indexes: []string{"slug"}, doc: func(g gen, i int) bson.D {
				n := g.between(2, 40)
				if i%200 == 61 {
					n = 5000
				}
				return d("_id", int64(10_000+i), "slug", key("appeal", i), "goalCents", g.between(1, 90)*100_000,
					"donors", list(n, func(j int) any { return d("name", g.name(), "cents", g.between(5, 400)*100, "on", at(j)) }))
			}}},
			traffic: []requests{
				{120, func(s *session, _ int) { s.one("appeals", d("slug", key("appeal", s.IntN(1000))), nil) }},
				{25, func(s *session, i int) {
					donor := d("name", s.name(), "cents", 5000, "on", at(9000+i))
					s.update("appeals", d("_id", int64(10_000+s.IntN(1000))), d("$push", d("donors", donor)))
				}},
			},
		},
		{
			name: "raibu", service: "festival", pays: "outlier", fine: "relation",
			why: "a gig in a bar has some dozen guests on its list, four headliners have 6,000, and the door reads the whole list",
			colls: []coll{{name: "raibu", n: 900, doc: func(g gen, i int) bson.D {
				n := g.near(50)
				if i%225 == 8 {
					n = 6000
				}
				return d("_id", ulid("RB", i), "題名", g.text(24), "会場", g.city(),
					"参加者", list(n, func(int) any { return int64(g.IntN(400_000)) }))
			}}},
			traffic: []requests{
				{140, func(s *session, _ int) { s.one("raibu", d("_id", ulid("RB", s.IntN(900))), nil) }},
				{40, func(s *session, _ int) {
					s.update("raibu", d("_id", ulid("RB", s.IntN(900))), d("$addToSet", d("参加者", int64(s.IntN(400_000)))))
				}},
			},
		},
		{
			name: "recept", service: "recipes", pays: "outlier", fine: "relation",
			why: "most recipes are saved by a few, six are saved by 4,000 people, and every page loads the recipe whole",
			colls: []coll{{name: "recept", n: 1200, indexes: []string{"titel"}, doc: func(g gen, i int) bson.D {
				n := g.near(35)
				if i%200 == 150 {
					n = 4000
				}
				return d("_id", oid(1, i), "titel", key("rätt", i), "portioner", g.between(1, 8),
					"ingredienser", g.some(vocabulary, 6),
					"sparatAv", list(n, func(int) any { return oid(2, g.IntN(60_000)) }), "__v", 0)
			}}},
			traffic: []requests{
				{120, func(s *session, _ int) {
					s.aggregate("recept", match("titel", key("rätt", s.IntN(1200))), d("$limit", 1))
				}},
				{30, func(s *session, _ int) {
					s.findAndUpdate("recept", d("_id", oid(1, s.IntN(1200))), d("$addToSet", d("sparatAv", oid(2,
						s.IntN(60_000)))))
				}},
			},
		},
		{
			name: "slaegter", service: "genealogy", pays: "outlier",
			why: "a family name has a few people, Jensen and three others have 3,500, and a name is opened with its people",
			colls: []coll{{name: "slaegter", n: 1100, indexes: []string{"efternavn"}, doc: func(g gen, i int) bson.D {
				n := g.between(1, 30)
				if i%275 == 40 {
					n = 3500
				}
				return d("_id", uuid(3, i), "efternavn", key("navn", i),
					"medlemmer", list(n, func(j int) any { return d("fornavn", g.name(), "født", 1700+j%300, "sogn", g.city()) }))
			}}},
			traffic: []requests{
				{110, func(s *session, _ int) {
					s.find("slaegter", d("efternavn", key("navn", s.IntN(1100))), by{limit: 1})
				}},
				{30, func(s *session, i int) {
					person := d("fornavn", s.name(), "født", 1900+i, "sogn", s.city())
					s.update("slaegter", d("efternavn", key("navn", s.IntN(1100))), d("$push",
						d("medlemmer", d("$each", a{person}))))
				}},
			},
		},
		{
			name: "störungen", service: "railway", pays: "outlier", fine: "relation",
			why: "a disruption holds up to 40 trains, four storms hold 3,000, and the control centre opens one with all its trains",
			colls: []coll{{name: "störungen", n: 1000, doc: func(g gen, i int) bson.D {
				n := g.between(1, 40)
				if i%250 == 99 {
					n = 3000
				}
				return d("_id", int32(i+1), "ursache", g.of("Sturm", "Weiche", "Signal"), "beginn", at(i),
					"züge", list(n, func(j int) any { return d("nr", fmt.Sprintf("RE %05d", j*7+i), "minuten", g.between(3, 180)) }))
			}}},
			traffic: []requests{
				{120, func(s *session, _ int) { s.one("störungen", d("_id", int32(s.IntN(1000)+1)), nil) }},
				{30, func(s *session, i int) {
					train := d("nr", fmt.Sprintf("ICE %04d", i), "minuten", 20)
					s.bulk("störungen", d("_id", int32(s.IntN(1000)+1)), d("$push", d("züge", train)))
				}},
			},
		},
		{
			name: "kuis", service: "quiz", pays: "outlier",
			why: "a quiz of a class has some dozen players, five of a TV show have 5,000, and the result page reads all of a quiz",
			colls: []coll{{name: "kuis", n: 1000, indexes: []string{"kode"}, doc: func(g gen, i int) bson.D {
				n := g.between(3, 45)
				if i%200 == 17 {
					n = 5000
				}
				return d("_id", oid(4, i), "kode", key("Q", i), "judul", g.text(20),
					"peserta", list(n, func(int) any { return d("nama", g.name(), "nilai", g.IntN(100)) }))
			}}},
			traffic: []requests{
				{130, func(s *session, _ int) { s.one("kuis", d("kode", key("Q", s.IntN(1000))), nil) }},
				{40, func(s *session, _ int) {
					s.update("kuis", d("kode", key("Q", s.IntN(1000))), d("$push", d("peserta", d("nama", s.name(),
						"nilai", s.IntN(100)))))
				}},
			},
		},
		{
			name: "opere", service: "museum", pays: "subset", fine: "relation",
			why: "the page of a work shows its six newest comments, which stand first, of a hundred or more",
			colls: []coll{{name: "opere", n: 300, indexes: []string{"codice"}, doc: func(g gen, i int) bson.D {
				n := g.between(60, 240)
				return d("_id", oid(5, i), "codice", key("OP", i), "autore", g.name(),
					"commenti", list(n, func(j int) any { return d("utente", g.name(), "testo", g.text(90), "data", at(9000-j*3)) }))
			}}},
			traffic: []requests{
				{150, func(s *session, _ int) {
					s.one("opere", d("codice", key("OP", s.IntN(300))), d("commenti", d("$slice", 6)))
				}},
				{12, func(s *session, i int) {
					c := d("utente", s.name(), "testo", s.text(90), "data", at(9100+i))
					s.update("opere", d("_id", oid(5, s.IntN(300))), d("$push", d("commenti", d("$each", a{c},
						"$position", 0))))
				}},
			},
		},
		{
			name: "stasjoner", service: "weather", pays: "subset", fine: "relation",
			why: "a station is shown with its last five warnings, and has had a hundred and more since 2010",
			colls: []coll{{name: "stasjoner", n: 350, doc: func(g gen, i int) bson.D {
				return d("_id", fmt.Sprintf("SN%05d", i), "navn", g.city(), "moh", g.IntN(1900),
					"varsler", list(g.between(70, 200), func(j int) any {
						return d("id", i*1000+j, "tid", at(j*5), "nivå", g.of("gul", "oransje", "rød"), "tekst", g.text(110))
					}))
			}}},
			traffic: []requests{
				{140, func(s *session, _ int) {
					s.find("stasjoner", d("_id", fmt.Sprintf("SN%05d", s.IntN(350))), by{fields: d("varsler",
						d("$slice", -5)), limit: 1})
				}},
				{14, func(s *session, i int) {
					w := d("id", 900_000+i, "tid", at(2000+i), "nivå", "gul", "tekst", s.text(110))
					s.update("stasjoner", d("_id", fmt.Sprintf("SN%05d", s.IntN(350))), d("$push", d("varsler", w)))
				}},
			},
		},
		{
			name: "animaux", service: "vet", pays: "subset", fine: "relation",
			why: "the consultation shows the last four visits of an animal, which has dozens to 160 with long reports",
			colls: []coll{{name: "animaux", n: 300, indexes: []string{"puce"}, doc: func(g gen, i int) bson.D {
				return d("_id", i, "puce", fmt.Sprintf("250%09d", i), "nom", g.name(),
					"visites", list(g.between(50, 160), func(j int) any {
						return d("date", at(j*24), "motif", g.of("vaccin", "boiterie", "dents"), "compteRendu", g.text(180))
					}))
			}}},
			traffic: []requests{
				{140, func(s *session, _ int) {
					s.aggregate("animaux", match("puce", fmt.Sprintf("250%09d", s.IntN(300))),
						d("$project", d("nom", 1, "visites", d("$slice", a{"$visites", -4}))))
				}},
				{6, func(s *session, _ int) { s.one("animaux", d("_id", s.IntN(300)), nil) }},
				{12, func(s *session, i int) {
					visit := d("date", at(5000+i), "motif", "vaccin", "compteRendu", s.text(180))
					s.update("animaux", d("_id", s.IntN(300)), d("$push", d("visites", visit)))
				}},
			},
		},
		{
			name: "papan", service: "quiz", pays: "subset", fine: "relation",
			why: "a board keeps all results in order of points, which never change, and every player sees the best ten",
			colls: []coll{{name: "papan", n: 200, doc: func(g gen, i int) bson.D {
				n := g.between(200, 400)
				return d("_id", key("papan", i), "tema", g.text(15), "hasil", list(n, func(j int) any {
					return d("pemain", g.name(), "poin", 100_000-j*200-g.IntN(200), "pada", at(g.IntN(8000)),
						"negara", g.city(), "avatar", g.text(40))
				}))
			}}},
			traffic: []requests{
				{160, func(s *session, _ int) {
					s.one("papan", d("_id", key("papan", s.IntN(200))), d("tema", 1, "hasil", d("$slice", 10)))
				}},
				{14, func(s *session, i int) {
					r := d("pemain", s.name(), "poin", s.IntN(100_000), "pada", at(8000+i), "negara", s.city(),
						"avatar", s.text(40))
					s.update("papan", d("_id", key("papan", s.IntN(200))), d("$push", d("hasil", d("$each", a{r},
						"$sort", d("poin", -1)))))
				}},
			},
		},
		{
			name: "maträtter", service: "recipes", pays: "subset", fine: "relation|extref|computed",
			why: "every list of dishes joins the three newest reviews of each, of some hundred, and reviews are written rarely",
			colls: []coll{
				{name: "maträtter", n: 120, indexes: []string{"kök"}, doc: func(g gen, i int) bson.D {
					return d("_id", i, "namn", g.text(15), "kök", g.of("svenskt", "thai", "mexikanskt", "franskt"),
						"pris", g.IntN(200))
				}},
				{name: "recensioner", n: 6000, indexes: []string{"rätt,datum"}, doc: func(g gen, i int) bson.D {
					return d("_id", oid(6, i), "rätt", i%120, "datum", at(i), "av", g.name(), "text", g.text(120),
						"betyg", g.between(1, 5))
				}},
			},
			traffic: []requests{
				{120, func(s *session, _ int) {
					newest := a{d("$match", d("$expr", d("$eq", a{"$rätt", "$$id"}))), d("$sort", d("datum", -1)),
						d("$limit", 3)}
					s.aggregate("maträtter", match("kök", s.of("svenskt", "thai", "mexikanskt", "franskt")), d("$limit", 10),
						d("$lookup", d("from", "recensioner", "let", d("id", "$_id"), "pipeline", newest, "as", "senaste")))
				}},
				{8, func(s *session, i int) {
					s.insert("recensioner", d("_id", oid(6, 6000+i), "rätt", s.IntN(120), "datum", at(6000+i), "av", s.name(),
						"text", s.text(120), "betyg", 4))
				}},
			},
		},
		{
			name: "maszyny", service: "mine", pays: "subset", fine: "relation",
			why: "the list of a shaft's machines shows the last three inspections of each, and all of them fill 20 kB",
			colls: []coll{{name: "maszyny", n: 300, indexes: []string{"szyb"}, doc: func(g gen, i int) bson.D {
				return d("_id", key("M", i), "szyb", i%12, "typ", g.of("kombajn", "wiertnica", "przenośnik"),
					"przeglądy", list(g.between(80, 150), func(j int) any {
						return d("kiedy", at(j*168), "kto", g.name(), "wynik", g.of("ok", "naprawa"), "uwagi", g.text(100))
					}))
			}}},
			traffic: []requests{
				{110, func(s *session, i int) {
					s.find("maszyny", d("szyb", i%12), by{fields: d("typ", 1, "przeglądy", d("$slice", -3)), limit: 20})
				}},
				{10, func(s *session, i int) {
					p := d("kiedy", at(30_000+i), "kto", s.name(), "wynik", "ok", "uwagi", s.text(100))
					s.update("maszyny", d("_id", key("M", s.IntN(300))), d("$push", d("przeglądy", p)))
				}},
			},
		},
		{
			name: "garages", service: "parking", pays: "subset", fine: "relation",
			why: "complaints lie in the order of their import, and each page of a garage sorts a hundred to show the newest five",
			colls: []coll{{name: "garages", n: 300, doc: func(g gen, i int) bson.D {
				return d("_id", oid(7, i), "address", g.city(), "spaces", g.between(20, 900),
					"complaints", list(g.between(80, 160), func(int) any {
						return d("ticket", g.IntN(1_000_000), "at", at(g.IntN(9000)), "text", g.text(130))
					}))
			}}},
			traffic: []requests{
				{130, func(s *session, _ int) {
					sorted := d("$sortArray", d("input", "$complaints", "sortBy", d("at", -1)))
					s.aggregate("garages", match("_id", oid(7, s.IntN(300))),
						d("$project", d("address", 1, "spaces", 1, "complaints", d("$slice", a{sorted, 5}))))
				}},
				{10, func(s *session, i int) {
					c := d("ticket", 2_000_000+i, "at", at(9000+i), "text", s.text(130))
					s.update("garages", d("_id", oid(7, s.IntN(300))), d("$push", d("complaints", c)))
				}},
			},
		},
		{
			name: "reperti", service: "museum", pays: "split",
			why: "the list of a room needs name and year, and each find carries a scan of 14 kB that only its own page shows",
			colls: []coll{{name: "reperti", n: 500, indexes: []string{"sala"}, doc: func(g gen, i int) bson.D {
				return d("_id", key("R", i), "nome", g.text(20), "anno", g.between(-800, 1900), "sala", i%25,
					"scansione", g.blob(14_000), "scheda", g.text(900))
			}}},
			traffic: []requests{
				{120, func(s *session, i int) {
					s.find("reperti", d("sala", i%25), by{fields: keep("nome", "anno", "sala"), limit: 20})
				}},
				{12, func(s *session, _ int) { s.one("reperti", d("_id", key("R", s.IntN(500))), nil) }},
			},
		},
		{
			name: "råvaror", service: "recipes", pays: "split",
			why: "choosing an ingredient leaves out the 9 kB of nutrients and origin, which one page in ten opens",
			colls: []coll{{name: "råvaror", n: 500, indexes: []string{"grupp"}, doc: func(g gen, i int) bson.D {
				return d("_id", int64(i), "namn", g.text(14), "grupp", i%20, "enhet", g.of("g", "ml", "st"),
					"näring", list(90, func(j int) any { return d("ämne", key("n", j), "per100g", g.money(), "källa", g.text(30)) }),
					"ursprung", d("text", g.text(1500), "länder", g.some(vocabulary, 8)))
			}}},
			traffic: []requests{
				{130, func(s *session, i int) {
					s.find("råvaror", d("grupp", i%20), by{fields: omit("näring", "ursprung"), limit: 25})
				}},
				{12, func(s *session, _ int) { s.one("råvaror", d("_id", int64(s.IntN(500))), nil) }},
			},
		},
		{
			name: "radios", service: "vet", pays: "split",
			why: "the record of an animal lists its X-rays by date and part, and the 12 kB preview is seen when one is opened",
			colls: []coll{{name: "radios", n: 600, indexes: []string{"animal,date"}, doc: func(g gen, i int) bson.D {
				return d("_id", uuid(8, i), "animal", i%60, "date", at(i), "partie", g.of("hanche", "thorax", "patte"),
					"vue", g.of("face", "profil"),
					"apercu", g.blob(12_000))
			}}},
			traffic: []requests{
				{120, func(s *session, i int) {
					s.aggregate("radios", match("animal", i%60), d("$sort", d("date", -1)), d("$limit", 20),
						d("$project", d("date", 1, "partie", 1, "vue", 1)))
				}},
				{14, func(s *session, _ int) { s.one("radios", d("_id", uuid(8, s.IntN(600))), keep("apercu")) }},
			},
		},
		{
			name: "raporty", service: "mine", pays: "split",
			why: "shift reports are listed without their text and attachments, which are nine tenths of a document",
			colls: []coll{{name: "raporty", n: 600, indexes: []string{"zmiana"}, doc: func(g gen, i int) bson.D {
				return d("_id", oid(9, i), "zmiana", i%30, "autor", g.name(), "status", g.of("nowy", "przyjęty"),
					"treść", g.text(5000), "załączniki", a{d("nazwa", "szkic", "dane", g.blob(5000))})
			}}},
			traffic: []requests{
				{120, func(s *session, i int) {
					s.aggregate("raporty", match("zmiana", i%30), d("$unset", a{"treść", "załączniki"}), d("$limit", 20))
				}},
				{12, func(s *session, _ int) { s.one("raporty", d("_id", oid(9, s.IntN(600))), nil) }},
				{10, func(s *session, _ int) {
					s.update("raporty", d("_id", oid(9, s.IntN(600))), d("$set", d("status", "przyjęty")))
				}},
			},
		},
		{
			name: "kilder", service: "genealogy", pays: "split",
			why: "searches list parish registers by place and year, and the read text of 10 kB is opened once in a dozen",
			colls: []coll{{name: "kilder", n: 600, indexes: []string{"sogn,år"}, doc: func(g gen, i int) bson.D {
				return d("_id", i, "sogn", key("sogn", i%40), "år", 1650+i%200, "type", g.of("dåb", "vielse", "død"),
					"afskrift", g.text(10_000))
			}}},
			traffic: []requests{
				{130, func(s *session, i int) {
					s.find("kilder", d("sogn", key("sogn", i%40), "år", d("$gte", 1650)), by{sort: d("år", 1),
						fields: d("afskrift", 0), limit: 20})
				}},
				{11, func(s *session, _ int) { s.find("kilder", d("_id", s.IntN(600)), by{limit: 1}) }},
			},
		},
		{
			name: "incidentes", service: "power", pays: "split",
			why: "dashboards list incidents by zone, and each holds an embedding and a plan that only the search for similar ones reads",
			colls: []coll{{name: "incidentes", n: 600, indexes: []string{"zona"}, doc: func(g gen, i int) bson.D {
				return d("_id", ulid("IN", i), "zona", i%20, "gravedad", g.between(1, 5), "titulo", g.text(30),
					"abierto", i%3 == 0,
					"embedding", list(384, func(int) any { return g.Float64() }), "plano", g.blob(3000))
			}}},
			traffic: []requests{
				{120, func(s *session, i int) {
					s.find("incidentes", d("zona", i%20), by{fields: keep("titulo", "gravedad", "abierto"), limit: 20})
				}},
				{10, func(s *session, _ int) { s.one("incidentes", d("_id", ulid("IN", s.IntN(600))), nil) }},
			},
		},
		{
			name: "umläufe", service: "railway",
			why: "all rotations have 60 to 90 stops, which are bounded by the day and always read together",
			colls: []coll{{name: "umläufe", n: 400, indexes: []string{"fahrzeug"}, doc: func(g gen, i int) bson.D {
				return d("_id", i, "fahrzeug", i%100, "halte", list(g.between(60, 90), func(j int) any {
					return d("bhf", key("B", j), "an", j*5, "ab", j*5+1)
				}))
			}}},
			traffic: []requests{
				{120, func(s *session, i int) { s.find("umläufe", d("fahrzeug", i%100), by{}) }},
			},
		},
		{
			name: "ekipler", service: "fire",
			why: "the longest crew has 14 members where most have three, which one document holds for ever",
			colls: []coll{{name: "ekipler", n: 900, doc: func(g gen, i int) bson.D {
				n := g.between(2, 4)
				if i%100 == 5 {
					n = 14
				}
				return d("_id", i, "istasyon", g.city(), "uyeler", list(n, func(int) any {
					return d("ad", g.name(), "rutbe", g.of("er", "amir"))
				}))
			}}},
			traffic: []requests{
				{110, func(s *session, _ int) { s.one("ekipler", d("_id", s.IntN(900)), nil) }},
				{20, func(s *session, _ int) {
					s.update("ekipler", d("_id", s.IntN(900)), d("$push", d("uyeler", d("ad", s.name(), "rutbe", "er"))))
				}},
				{20, func(s *session, _ int) {
					s.update("ekipler", d("_id", s.IntN(900)), d("$pop", d("uyeler", -1)))
				}},
			},
		},
		{
			name: "butai", service: "festival", fine: "relation", harm: "outlier",
			why: "a few plans have 2,500 entries, but their states change in place all the time, which would miss those outside",
			colls: []coll{{name: "butai", n: 600, doc: func(g gen, i int) bson.D {
				n := g.between(4, 30)
				if i%150 == 9 {
					n = 2500
				}
				return d("_id", i, "名称", g.text(12), "予定", list(n, func(j int) any {
					return d("番号", j, "状態", "未定", "人", g.name())
				}))
			}}},
			traffic: []requests{
				{200, func(s *session, i int) {
					s.update("butai", d("_id", s.IntN(600), "予定.番号", i%4), d("$set", d("予定.$.状態", s.of("確定", "中止"))))
				}},
				{60, func(s *session, _ int) { s.one("butai", d("_id", s.IntN(600)), nil) }},
			},
		},
		{
			name: "helpers", service: "aid",
			why: "each push keeps the last 60 log lines, so no list gets long, and forms show all of them",
			colls: []coll{{name: "helpers", n: 500, doc: func(g gen, i int) bson.D {
				return d("_id", uuid(10, i), "name", g.name(), "log", list(g.between(5, 60),
					func(j int) any { return d("at", at(j), "did", g.text(20)) }))
			}}},
			traffic: []requests{
				{90, func(s *session, _ int) { s.one("helpers", d("_id", uuid(10, s.IntN(500))), nil) }},
				{60, func(s *session, i int) {
					line := d("at", at(100+i), "did", s.text(20))
					s.update("helpers", d("_id", uuid(10, s.IntN(500))), d("$push", d("log", d("$each", a{line},
						"$slice", -60))))
				}},
			},
		},
		{
			name: "grene", service: "genealogy", fine: "relation",
			why: "four branches have 3,000 people, but the list lies below another field, and outlier takes plain names only",
			colls: []coll{{name: "grene", n: 800, doc: func(g gen, i int) bson.D {
				n := g.between(2, 25)
				if i%200 == 33 {
					n = 3000
				}
				return d("_id", i, "titel", g.text(15), "træ", d("rod", g.name(), "personer", list(n,
					func(int) any { return g.name() })))
			}}},
			traffic: []requests{
				{110, func(s *session, _ int) { s.one("grene", d("_id", s.IntN(800)), nil) }},
				{20, func(s *session, _ int) {
					s.update("grene", d("_id", s.IntN(800)), d("$push", d("træ.personer", s.name())))
				}},
			},
		},
		{
			name: "permits", service: "parking", fine: "outlier|relation",
			why: "barriers look for the permit that holds a plate, and a plate outside of its permit would not be found by that",
			colls: []coll{{name: "permits", n: 800, indexes: []string{"plates"}, doc: func(g gen, i int) bson.D {
				n := g.between(1, 6)
				if i%200 == 5 {
					n = 1500
				}
				return d("_id", key("P", i), "company", g.name(), "plates", list(n,
					func(j int) any { return fmt.Sprintf("B-XY %d", i*2000+j) }))
			}}},
			traffic: []requests{
				{220, func(s *session, _ int) {
					s.one("permits", d("plates", fmt.Sprintf("B-XY %d", s.IntN(800)*2000)), keep("company"))
				}},
				{15, func(s *session, i int) {
					s.update("permits", d("_id", key("P", s.IntN(800))), d("$addToSet", d("plates", fmt.Sprint("HH-A ", i))))
				}},
			},
		},
		{
			name: "vaccins", service: "vet",
			why: "the last ten are asked for, but no animal has more than twelve, so the slice is nearly the list",
			colls: []coll{{name: "vaccins", n: 700, doc: func(g gen, i int) bson.D {
				return d("_id", i, "espece", g.of("chien", "chat"), "doses", list(g.between(1, 12),
					func(j int) any { return d("date", at(j*2000), "lot", key("L", j)) }))
			}}},
			traffic: []requests{
				{120, func(s *session, _ int) { s.one("vaccins", d("_id", s.IntN(700)), d("doses", d("$slice", -10))) }},
				{10, func(s *session, i int) {
					s.update("vaccins", d("_id", s.IntN(700)), d("$push", d("doses", d("date", at(20_000+i), "lot", "L9"))))
				}},
			},
		},
		{
			name: "turnos", service: "power", fine: "bucket|series|relation|outlier",
			why: "entries are written as often as the newest are read, and an insert into a subset writes twice in a transaction",
			colls: []coll{{name: "turnos", n: 200, doc: func(g gen, i int) bson.D {
				return d("_id", i, "planta", g.city(), "bitacora", list(g.between(60, 140), func(j int) any {
					return d("hora", at(j), "nota", g.text(80), "operador", g.name())
				}))
			}}},
			traffic: []requests{
				{110, func(s *session, _ int) { s.one("turnos", d("_id", s.IntN(200)), d("bitacora", d("$slice", -8))) }},
				{120, func(s *session, i int) {
					s.update("turnos", d("_id", s.IntN(200)), d("$push", d("bitacora", d("hora", at(200+i),
						"nota", s.text(80), "operador", s.name()))))
				}},
			},
		},
		{
			name: "pertanyaan", service: "quiz", fine: "relation", harm: "subset",
			why: "the best answers are shown, but each vote changes their rank, and votes come as often as readers",
			colls: []coll{{name: "pertanyaan", n: 200, doc: func(g gen, i int) bson.D {
				return d("_id", i, "teks", g.text(60), "jawaban", list(g.between(40, 100), func(j int) any {
					return d("no", j, "isi", g.text(100), "suara", g.IntN(500))
				}))
			}}},
			traffic: []requests{
				{120, func(s *session, _ int) {
					best := d("$sortArray", d("input", "$jawaban", "sortBy", d("suara", -1)))
					s.aggregate("pertanyaan", match("_id", s.IntN(200)), d("$project", d("teks", 1,
						"jawaban", d("$slice", a{best, 5}))))
				}},
				{160, func(s *session, _ int) {
					s.update("pertanyaan", d("_id", s.IntN(200), "jawaban.no", s.IntN(40)), d("$inc", d("jawaban.$.suara", 1)))
				}},
			},
		},
		{
			name: "percorsi", service: "museum",
			why: "a route has its 80 stops, the guide loads all of them, and visitors get no part of the list",
			colls: []coll{{name: "percorsi", n: 250, doc: func(g gen, i int) bson.D {
				return d("_id", key("via", i), "lingua", g.of("it", "en"), "tappe", list(80,
					func(j int) any { return d("n", j, "testo", g.text(90)) }))
			}}},
			traffic: []requests{
				{130, func(s *session, _ int) { s.one("percorsi", d("_id", key("via", s.IntN(250))), nil) }},
			},
		},
		{
			name: "pünktlichkeit", service: "railway",
			why: "the last ten delays are plain numbers without a time or an _id, which subset has no order for",
			colls: []coll{{name: "pünktlichkeit", n: 300, doc: func(g gen, i int) bson.D {
				return d("_id", key("linie", i), "minuten", list(g.between(100, 250), func(int) any { return g.IntN(30) }))
			}}},
			traffic: []requests{
				{110, func(s *session, _ int) {
					s.one("pünktlichkeit", d("_id", key("linie", s.IntN(300))), d("minuten", d("$slice", -10)))
				}},
				{12, func(s *session, _ int) {
					s.update("pünktlichkeit", d("_id", key("linie", s.IntN(300))), d("$push", d("minuten", s.IntN(30))))
				}},
			},
		},
		{
			name: "planlar", service: "fire",
			why: "a plan of a building is large, but it is only opened whole at the scene, and nobody lists plans",
			colls: []coll{{name: "planlar", n: 400, doc: func(g gen, i int) bson.D {
				return d("_id", key("bina", i), "adres", g.city(), "kat", g.between(1, 20), "cizim", g.blob(12_000))
			}}},
			traffic: []requests{
				{120, func(s *session, _ int) { s.one("planlar", d("_id", key("bina", s.IntN(400))), nil) }},
				{10, func(s *session, _ int) {
					s.update("planlar", d("_id", key("bina", s.IntN(400))), d("$set", d("kat", 3)))
				}},
			},
		},
		{
			name: "letters", service: "aid",
			why: "lists leave out a text of 300 bytes, for which a projection is enough",
			colls: []coll{{name: "letters", n: 1500, indexes: []string{"campaign"}, doc: func(g gen, i int) bson.D {
				return d("_id", oid(11, i), "campaign", i%60, "to", g.name(), "city", g.city(), "sent", at(i),
					"text", g.text(300))
			}}},
			traffic: []requests{
				{120, func(s *session, i int) {
					s.find("letters", d("campaign", i%60), by{fields: keep("to", "city", "sent"), limit: 25})
				}},
				{15, func(s *session, _ int) { s.one("letters", d("_id", oid(11, s.IntN(1500))), nil) }},
			},
		},
		{
			name: "kartfliser", service: "weather",
			why: "tiles are large, and every list is a map that draws each of them",
			colls: []coll{{name: "kartfliser", n: 500, indexes: []string{"kart"}, doc: func(g gen, i int) bson.D {
				return d("_id", i, "kart", i%50, "x", i%7, "y", i%11, "bilde", g.blob(9000))
			}}},
			traffic: []requests{
				{110, func(s *session, i int) { s.find("kartfliser", d("kart", i%50), by{}) }},
				{20, func(s *session, _ int) { s.one("kartfliser", d("_id", s.IntN(500)), nil) }},
			},
		},
		{
			name: "contracts", service: "parking", fine: "split",
			why: "lists get their fields from the index alone and read none of the documents with the signed form",
			colls: []coll{{name: "contracts", n: 600, indexes: []string{"garage,plate,until"}, doc: func(g gen, i int) bson.D {
				return d("_id", i, "garage", i%30, "plate", key("B", i), "until", at(i), "form", g.blob(8000))
			}}},
			traffic: []requests{
				{130, func(s *session, i int) {
					s.find("contracts", d("garage", i%30), by{sort: d("plate", 1), fields: d("_id", 0, "plate", 1, "until", 1)})
				}},
				{12, func(s *session, _ int) { s.one("contracts", d("_id", s.IntN(600)), nil) }},
			},
		},
		{
			name: "próbki", service: "mine", harm: "split",
			why: "the scan lies beside the name in one field, split moves whole fields at the top, and each list needs the name",
			colls: []coll{{name: "próbki", n: 500, indexes: []string{"złoże"}, doc: func(g gen, i int) bson.D {
				return d("_id", i, "złoże", i%25, "dane", d("nazwa", g.text(20), "głębokość", g.IntN(900),
					"skan", g.blob(12_000)))
			}}},
			traffic: []requests{
				{120, func(s *session, i int) {
					s.find("próbki", d("złoże", i%25), by{fields: keep("dane.nazwa", "dane.głębokość"), limit: 20})
				}},
				{12, func(s *session, _ int) { s.one("próbki", d("_id", s.IntN(500)), nil) }},
			},
		},
	}
}
