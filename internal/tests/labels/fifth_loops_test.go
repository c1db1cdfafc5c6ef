package labels_test

import "go.mongodb.org/mongo-driver/v2/bson"

// References that are followed one by one, or break: relation.
func fifthLoopCases() []labelled {
	return []labelled{
		{
			name: "clubs", service: "chess", pays: "relation", fine: "extref",
			why: "the page of a club loads each member whole by a findOne, and one in ten members has been deleted",
			colls: []coll{
				{name: "clubs", n: 250, doc: func(g gen, i int) bson.D {
					return d("_id", oid(50, i), "name", g.text(14), "members", list(g.between(6, 14),
						func(int) any { return ulid("M", g.IntN(1000)) }))
				}},
				{name: "persons", n: 900, doc: func(g gen, i int) bson.D {
					return d("_id", ulid("M", i), "name", g.name(), "elo", g.between(800, 2800), "born", at(-i*100), "mail", g.text(12),
						"paid", i%4 != 0, "phone", g.text(9), "street", g.text(20))
				}},
			},
			traffic: []requests{
				{30, func(s *session, _ int) {
					club := s.one("clubs", d("_id", oid(50, s.IntN(250))), nil)
					for _, member := range club["members"].(a) {
						s.one("persons", d("_id", member), nil)
					}
				}},
				{8, func(s *session, _ int) {
					s.update("clubs", d("_id", oid(50, s.IntN(250))), d("$addToSet", d("members", ulid("M", s.IntN(900)))))
				}},
			},
		},
		{
			name: "vacancies", service: "jobs", pays: "relation", fine: "subset|computed",
			why: "a recruiter's board reads its vacancies and then the applicants of each one by a find of its own",
			colls: []coll{
				{name: "vacancies", n: 300, indexes: []string{"recruiter"}, doc: func(g gen, i int) bson.D {
					return d("_id", uuid(50, i), "recruiter", i%30, "title", g.text(20))
				}},
				{name: "applicants", n: 2400, indexes: []string{"vacancy"}, doc: func(g gen, i int) bson.D {
					return d("_id", oid(51, i), "vacancy", uuid(50, i%300), "name", g.name(), "mail", g.text(14), "letter", g.text(120))
				}},
			},
			traffic: []requests{
				{30, func(s *session, _ int) {
					for _, vacancy := range s.find("vacancies", d("recruiter", s.IntN(30)), by{}) {
						s.find("applicants", d("vacancy", vacancy["_id"]), by{})
					}
				}},
				{20, func(s *session, i int) {
					s.insert("applicants", d("_id", oid(51, 9000+i), "vacancy", uuid(50, s.IntN(300)), "name", s.name(), "mail", s.text(14),
						"letter", s.text(120)))
				}},
			},
		},
		{
			name: "tratamientos", service: "dentist", pays: "relation",
			why: "treatment and X-rays name each other in two writes, some of which failed, and the page loads each image by itself",
			colls: []coll{
				{name: "tratamientos", n: 300, doc: func(g gen, i int) bson.D {
					return d("_id", int32(i), "diente", g.between(11, 48), "radiografías", list(6, func(j int) any {
						return int32(i*6 + j)
					}))
				}},
				{name: "radiografías", n: 1700, indexes: []string{"tratamiento"}, doc: func(g gen, i int) bson.D {
					return d("_id", int32(i), "tratamiento", int32((i/6+i%17/16)%300), "fecha", at(i), "aparato", g.text(8), "dosis",
						g.money(), "informe", g.text(100), "técnico", g.name())
				}},
			},
			traffic: []requests{
				{40, func(s *session, _ int) {
					treatment := s.one("tratamientos", d("_id", int32(s.IntN(300))), nil)
					for _, image := range treatment["radiografías"].(a) {
						s.one("radiografías", d("_id", image), nil)
					}
				}},
				{10, func(s *session, i int) {
					s.insert("radiografías", d("_id", int32(9000+i), "tratamiento", int32(i), "fecha", minute(i), "aparato", "A",
						"dosis", 0.1, "informe", s.text(100), "técnico", s.name()))
					s.update("tratamientos", d("_id", int32(i)), d("$push", d("radiografías", int32(9000+i))))
				}},
			},
		},
		{
			name: "tournées", service: "circus", pays: "relation", fine: "extref",
			why: "a tour lists its stops in their order, and the plan loads each stop whole by a find of its own",
			colls: []coll{
				{name: "tournées", n: 150, doc: func(g gen, i int) bson.D {
					return d("_id", hex(8, i), "année", 1950+i%70, "étapes", list(g.between(8, 12),
						func(int) any { return key("et", g.IntN(500)) }))
				}},
				{name: "étapes", n: 500, doc: func(g gen, i int) bson.D {
					return d("_id", key("et", i), "ville", g.city(), "place", g.text(14), "eau", i%3 == 0, "kW", g.between(20, 200),
						"maire", g.name(), "tel", g.text(10), "loyer", g.between(100, 900), "remarques", g.text(80))
				}},
			},
			traffic: []requests{
				{35, func(s *session, _ int) {
					tour := s.one("tournées", d("_id", hex(8, s.IntN(150))), nil)
					for _, stop := range tour["étapes"].(a) {
						s.find("étapes", d("_id", stop), by{limit: 1})
					}
				}},
			},
		},
		{
			name: "agenții", service: "lottery", pays: "relation",
			why: "the list of a county's agencies asks for the terminals of each agency, one find after the other",
			colls: []coll{
				{name: "agenții", n: 400, indexes: []string{"județ"}, doc: func(g gen, i int) bson.D {
					return d("_id", key("AG", i), "județ", i%40, "șef", g.name())
				}},
				{name: "terminale", n: 1600, indexes: []string{"agenție"}, doc: func(g gen, i int) bson.D {
					return d("_id", int64(i), "agenție", key("AG", i%400), "serie", g.text(12), "versiune", g.text(5), "stare",
						g.of("on", "off"), "instalat", at(i), "model", g.text(8))
				}},
			},
			traffic: []requests{
				{35, func(s *session, _ int) {
					for _, agency := range s.find("agenții", d("județ", s.IntN(40)), by{sort: d("_id", 1)}) {
						s.find("terminale", d("agenție", agency["_id"]), by{})
					}
				}},
			},
		},
		{
			name: "naročila", service: "sawmill", pays: "relation|extref",
			why: "an order names its logs in an array of lines, and the sheet fetches each log whole by its number",
			colls: []coll{
				{name: "naročila", n: 400, doc: func(g gen, i int) bson.D {
					return d("_id", oid(52, i), "kupec", g.name(), "postavke", list(g.between(4, 9), func(int) any {
						return d("hlod", int64(g.IntN(1200)), "cena", g.between(20, 300))
					}))
				}},
				{name: "hlodovina", n: 1200, doc: func(g gen, i int) bson.D {
					return d("_id", int64(i), "vrsta", g.of("smreka", "bukev"), "premer", g.between(20, 80), "dolžina", g.between(2, 6),
						"parcela", g.text(8))
				}},
			},
			traffic: []requests{
				{50, func(s *session, _ int) {
					order := s.one("naročila", d("_id", oid(52, s.IntN(400))), nil)
					for _, line := range order["postavke"].(a) {
						s.one("hlodovina", d("_id", line.(bson.D)[0].Value), nil)
					}
				}},
			},
		},
		{
			name: "mikutano", service: "embassy", pays: "relation", fine: "extref",
			why: "guests of a meeting stand in a collection of links, and each link is followed by a findOne of the guest",
			colls: []coll{
				{name: "mikutano", n: 200, doc: func(g gen, i int) bson.D {
					return d("_id", hex(9, i), "mada", g.text(18), "lini",
						at(i))
				}},
				{name: "waalikwa", n: 2000, indexes: []string{"mkutano", "mgeni"}, doc: func(g gen, i int) bson.D {
					return d("_id", oid(53, i), "mkutano", hex(9, i%200), "mgeni", hex(10, (i*7+i/200)%600), "kiti", i/200)
				}},
				{name: "wageni", n: 600, doc: func(g gen, i int) bson.D {
					return d("_id", hex(10, i), "jina", g.name(), "cheo", g.text(10), "nchi", g.of("KE", "TZ", "UG"), "simu", g.text(10),
						"lugha", g.of("sw", "en"), "chakula", g.text(10), "gari", g.text(7))
				}},
			},
			traffic: []requests{
				{40, func(s *session, _ int) {
					links := s.find("waalikwa", d("mkutano", hex(9, s.IntN(200))), by{})
					s.dereference("wageni", links, "mgeni", nil)
				}},
			},
		},
		{
			name: "choristers", service: "choir",
			why: "the singers of a group are fetched by one $in over a short list that is never wrong, as the package would do",
			colls: []coll{
				{name: "choristers", n: 300, doc: func(g gen, i int) bson.D {
					return d("_id", int64(i), "nosaukums", g.text(10), "dziedātāji", list(8,
						func(j int) any { return int64((i*5 + j) % 700) }))
				}},
				{name: "dziedātāji", n: 700, doc: func(g gen, i int) bson.D {
					return d("_id", int64(i), "vārds", g.name(), "balss", g.of("S", "A", "T", "B"), "tālrunis", g.text(8), "kopš", at(i))
				}},
			},
			traffic: []requests{
				{130, func(s *session, _ int) {
					group := s.one("choristers", d("_id", int64(s.IntN(300))), nil)
					s.find("dziedātāji", d("_id", d("$in", group["dziedātāji"])), by{})
				}},
			},
		},
		{
			name: "sessions", service: "jobs",
			why: "each request reads its session and the account of it, two reads that follow no list",
			colls: []coll{
				{name: "sessions", n: 900, indexes: []string{"token"}, doc: func(g gen, i int) bson.D {
					return d("_id", uuid(51, i), "token", key("t", i), "account", uuid(52, i%450), "until", at(20_000))
				}},
				{name: "accounts", n: 450, doc: func(g gen, i int) bson.D {
					return d("_id", uuid(52, i), "mail", g.text(14), "hash", g.text(40), "roles", a{"user"}, "seen", minute(i), "plan",
						g.of("free", "pro"), "locale", g.of("en", "lt"))
				}},
			},
			traffic: []requests{
				{140, func(s *session, _ int) {
					i := s.IntN(900)
					s.one("sessions", d("token", key("t", i)), nil)
					s.one("accounts", d("_id", uuid(52, i%450)), nil)
				}},
				{140, func(s *session, i int) {
					s.update("accounts", d("_id", uuid(52, s.IntN(450))), d("$set", d("seen", minute(i))))
				}},
			},
		},
		{
			name: "mails", service: "embassy",
			why: "a worker takes numbers from a queue outside and reads one letter for each, which no earlier answer held",
			colls: []coll{{name: "mails", n: 1500, doc: func(g gen, i int) bson.D {
				return d("_id", hex(11, i), "kwa", g.name(), "mada", g.text(18), "maandishi", g.text(150))
			}}},
			traffic: []requests{
				{20, func(s *session, _ int) {
					for range 10 {
						s.one("mails", d("_id", hex(11, s.IntN(1500))), nil)
					}
				}},
			},
		},
		{
			name: "batches", service: "customs",
			why: "a job reads the shipments of an hour and writes each of them, a loop of updates that no join makes shorter",
			colls: []coll{{name: "batches", n: 2000, indexes: []string{"uur"}, doc: func(g gen, i int) bson.D {
				return d("_id", numbered("BT", i), "uur", i%200, "waarde", g.between(10, 9000), "klaar", false)
			}}},
			traffic: []requests{
				{25, func(s *session, _ int) {
					for _, b := range s.find("batches", d("uur", s.IntN(200)), by{}) {
						s.update("batches", d("_id", b["_id"]), d("$set", d("klaar", true)))
					}
				}},
			},
		},
		{
			name: "cartes", service: "circus",
			why: "an artist has one identity card by nature, embedded, and read with the artist",
			colls: []coll{{name: "cartes", n: 900, indexes: []string{"carte.numéro"}, doc: func(g gen, i int) bson.D {
				return d("_id", int32(i), "nom", g.name(), "carte", d("numéro", key("ID", i), "valable", at(i*10)))
			}}},
			traffic: []requests{
				{130, func(s *session, _ int) { s.one("cartes", d("carte.numéro", key("ID", s.IntN(900))), nil) }},
			},
		},
	}
}
