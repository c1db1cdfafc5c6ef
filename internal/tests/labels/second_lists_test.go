package labels_test

import (
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// Lists in documents, and large documents: outlier, subset, split.
func secondListCases() []labelled {
	return []labelled{
		{
			name: "podcasts", service: "radio", pays: "outlier", fine: "relation",
			why: "a podcast has a few dozen subscribers and is read whole with them, and four famous ones have 6,000",
			colls: []coll{{name: "podcasts", n: 900, indexes: []string{"slug"}, doc: func(g gen, i int) bson.D {
				n := g.between(4, 45)
				if i%225 == 30 {
					n = 6000
				}
				return d("_id", uuid(1, i), "slug", key("pod", i), "title", g.text(30), "feedUrl", g.text(50),
					"subscriberIds", list(n, func(int) any { return uuid(2, g.IntN(80_000)) }), "__v", 3)
			}}},
			traffic: []requests{
				{130, func(s *session, _ int) { s.one("podcasts", d("slug", key("pod", s.IntN(900))), nil) }},
				{30, func(s *session, _ int) {
					s.update("podcasts", d("_id", uuid(1, s.IntN(900))), d("$addToSet", d("subscriberIds", uuid(2, s.IntN(80_000)))))
				}},
			},
		},
		{
			name: "manifests", service: "harbor", pays: "outlier",
			why: "a feeder's manifest has up to 30 containers, six large carriers have 2,500, and manifests are printed whole",
			colls: []coll{{name: "manifests", n: 1000, indexes: []string{"voyage"}, doc: func(g gen, i int) bson.D {
				n := g.between(1, 30)
				if i%167 == 9 {
					n = 2500
				}
				return d("_id", uuid(3, i), "voyage", fmt.Sprintf("V%04d", i), "_class", "port.Manifest", "containers", list(n,
					func(j int) any {
						return d("no", fmt.Sprintf("MSKU%07d", i*3000+j), "kg", g.between(2000, 30_000), "reefer", j%7 == 0)
					}))
			}}},
			traffic: []requests{
				{120, func(s *session, _ int) { s.one("manifests", d("voyage", fmt.Sprintf("V%04d", s.IntN(1000))), nil) }},
				{30, func(s *session, i int) {
					box := d("no", fmt.Sprintf("TEMU%07d", i), "kg", 21_000, "reefer", false)
					s.update("manifests", d("_id", uuid(3, s.IntN(1000))), d("$push", d("containers", d("$each", a{box}))))
				}},
			},
		},
		{
			name: "verfahren", service: "court", pays: "outlier",
			why: "a lawsuit has two to twelve parties, three class actions have 4,000, and a file is opened with all of them",
			colls: []coll{{name: "verfahren", n: 800, indexes: []string{"aktenzeichen"}, doc: func(g gen, i int) bson.D {
				n := g.between(2, 12)
				if i%260 == 100 {
					n = 4000
				}
				return d("_id", int64(700_000+i), "aktenzeichen", fmt.Sprintf("%d O %d/25", i%12, i), "gegenstand", g.text(60),
					"beteiligte", list(n, func(j int) any { return d("name", g.name(), "rolle", g.of("Kläger", "Zeuge"), "seit", at(j)) }))
			}}},
			traffic: []requests{
				{110, func(s *session, _ int) {
					n := s.IntN(800)
					s.find("verfahren", d("aktenzeichen", fmt.Sprintf("%d O %d/25", n%12, n)), by{limit: 1})
				}},
				{25, func(s *session, i int) {
					s.update("verfahren", d("_id", int64(700_000+s.IntN(800))),
						d("$push", d("beteiligte", d("name", s.name(), "rolle", "Zeuge", "seit", at(i)))))
				}},
			},
		},
		{
			name: "modules", service: "builds", pays: "outlier", fine: "relation|tree",
			why: "a library has a handful of dependents, five that everybody uses have 5,000, and its page shows them all",
			colls: []coll{{name: "modules", n: 1200, doc: func(g gen, i int) bson.D {
				n := g.near(40)
				if i%240 == 11 {
					n = 5000
				}
				return d("_id", key("mod", i), "latest", fmt.Sprintf("1.%d.0", i%30), "license", g.of("MIT", "BSD"),
					"dependents", list(n, func(int) any { return "ext/" + key("m", g.IntN(70_000)) }))
			}}},
			traffic: []requests{
				{140, func(s *session, _ int) { s.one("modules", d("_id", key("mod", s.IntN(1200))), nil) }},
				{40, func(s *session, _ int) {
					s.update("modules", d("_id", key("mod", s.IntN(1200))), d("$push", d("dependents", "ext/"+key("m", s.IntN(70_000)))))
				}},
			},
		},
		{
			name: "aloitteet", service: "council", pays: "outlier", fine: "relation",
			why: "citizens' initiatives get some dozen signatures, a few get 3,500, and the page of one shows who signed",
			colls: []coll{{name: "aloitteet", n: 1000, doc: func(g gen, i int) bson.D {
				n := g.between(0, 50)
				if i%200 == 77 {
					n = 3500
				}
				return d("_id", oid(11, i), "otsikko", g.text(40), "tila", g.of("auki", "suljettu"),
					"allekirjoittajat", list(n, func(j int) any { return d("nimi", g.name(), "kunta", g.city(), "pvm", at(j)) }))
			}}},
			traffic: []requests{
				{120, func(s *session, _ int) {
					s.aggregate("aloitteet", match("_id", oid(11, s.IntN(1000))), d("$limit", 1))
				}},
				{25, func(s *session, i int) {
					s.findAndUpdate("aloitteet", d("_id", oid(11, s.IntN(1000))),
						d("$push", d("allekirjoittajat", d("nimi", s.name(), "kunta", s.city(), "pvm", at(i)))))
				}},
			},
		},
		{
			name: "clubes", service: "league", pays: "outlier",
			why: "amateur clubs have up to 80 members, five professional ones have 4,000, and the club's sheet lists its members",
			colls: []coll{{name: "clubes", n: 900, indexes: []string{"sigla"}, doc: func(g gen, i int) bson.D {
				n := g.between(10, 80)
				if i%180 == 3 {
					n = 4000
				}
				return d("_id", i+1, "sigla", key("C", i), "cidade", g.city(), "socios", list(n, func(j int) any {
					return d("numero", j, "nome", g.name(), "desde", at(j))
				}))
			}}},
			traffic: []requests{
				{100, func(s *session, _ int) { s.one("clubes", d("sigla", key("C", s.IntN(900))), nil) }},
				{40, func(s *session, _ int) { s.one("clubes", d("_id", 1+s.IntN(900)), d("socios", 1, "sigla", 1)) }},
				{25, func(s *session, i int) {
					s.update("clubes", d("_id", 1+s.IntN(900)), d("$push",
						d("socios", d("numero", 9000+i, "nome", s.name(), "desde", at(i)))))
				}},
			},
		},
		{
			name: "woningen", service: "property",
			why: "every home has 15 to 40 photos, which are shown together; none of the lists grows beyond that",
			colls: []coll{{name: "woningen", n: 700, indexes: []string{"postcode"}, doc: func(g gen, i int) bson.D {
				return d("_id", oid(12, i), "postcode", fmt.Sprintf("%04d AB", i), "vraagprijs", g.between(150_000, 900_000),
					"fotos", list(g.between(15, 40), func(j int) any {
						return d("url", fmt.Sprintf("https://img/%d/%d.jpg", i, j),
							"b", 1200)
					}))
			}}},
			traffic: []requests{
				{120, func(s *session, _ int) { s.one("woningen", d("_id", oid(12, s.IntN(700))), nil) }},
				{15, func(s *session, i int) {
					s.update("woningen", d("_id", oid(12, s.IntN(700)), "fotos.39", d("$exists", false)),
						d("$push", d("fotos", d("url", fmt.Sprint("https://img/", i), "b", 800))))
				}},
			},
		},
		{
			name: "parzellen", service: "farm", harm: "outlier|subset",
			why: "a few fields have an outline of 3,000 points, but GeoJSON must be whole in its document, and it is never appended to",
			colls: []coll{{name: "parzellen", n: 900, indexes: []string{"flurstueck"}, doc: func(g gen, i int) bson.D {
				n := g.between(5, 40)
				if i%180 == 60 {
					n = 3000
				}
				ring := list(n, func(j int) any { return a{7 + g.Float64(), 50 + float64(j)/1000} })
				return d("_id", oid(13, i), "flurstueck", key("F", i), "kultur", g.of("Weizen", "Raps", "Mais"),
					"umriss", d("type", "LineString", "coordinates", ring))
			}}},
			traffic: []requests{
				{130, func(s *session, _ int) { s.one("parzellen", d("flurstueck", key("F", s.IntN(900))), nil) }},
				{20, func(s *session, _ int) {
					s.update("parzellen", d("_id", oid(13, s.IntN(900))), d("$set", d("kultur", s.of("Weizen", "Raps"))))
				}},
			},
		},
		{
			name: "sims", service: "telecom",
			why: "the list of cells is cut to 50 by each push, so it is bounded, and it is read whole",
			colls: []coll{{name: "sims", n: 800, doc: func(g gen, i int) bson.D {
				return d("_id", fmt.Sprintf("8949%015d", i), "plan", g.of("S", "M", "L"),
					"recentCells", list(g.between(20, 50), func(j int) any { return d("cell", g.IntN(4000), "at", minute(j)) }))
			}}},
			traffic: []requests{
				{120, func(s *session, _ int) { s.one("sims", d("_id", fmt.Sprintf("8949%015d", s.IntN(800))), nil) }},
				{80, func(s *session, i int) {
					cell := d("cell", s.IntN(4000), "at", minute(i))
					s.update("sims", d("_id", fmt.Sprintf("8949%015d", s.IntN(800))),
						d("$push", d("recentCells", d("$each", a{cell}, "$slice", -50))))
				}},
			},
		},
		{
			name: "plates", service: "lab", harm: "outlier|subset|relation",
			why: "each plate has exactly 384 wells, which are read together and changed in place",
			colls: []coll{{name: "plates", n: 150, indexes: []string{"barcode"}, doc: func(g gen, i int) bson.D {
				return d("_id", uuid(4, i), "barcode", key("PL", i), "wells", list(384, func(j int) any {
					return d("p", fmt.Sprintf("%c%d", 'A'+j/24, j%24+1), "od", g.Float64())
				}))
			}}},
			traffic: []requests{
				{100, func(s *session, _ int) { s.one("plates", d("barcode", key("PL", s.IntN(150))), nil) }},
				{60, func(s *session, _ int) {
					s.update("plates", d("_id", uuid(4, s.IntN(150))), d("$set", d(fmt.Sprintf("wells.%d.od", s.IntN(384)), s.Float64())))
				}},
			},
		},
		{
			name: "runs", service: "builds",
			why: "a run of a build has at most 60 steps, is written whole and shown whole",
			colls: []coll{{name: "runs", n: 900, indexes: []string{"commit"}, doc: func(g gen, i int) bson.D {
				return d("_id", int64(i), "commit", fmt.Sprintf("%040x", i), "state", g.of("ok", "failed"),
					"steps", list(g.between(8, 60), func(j int) any { return d("name", g.text(12), "ms", g.between(10, 9000), "ok", j%11 != 0) }))
			}}},
			traffic: []requests{
				{130, func(s *session, _ int) { s.one("runs", d("commit", fmt.Sprintf("%040x", s.IntN(900))), nil) }},
				{30, func(s *session, i int) {
					s.save("runs", d("_id", int64(5000+i), "commit", fmt.Sprintf("%040x", 5000+i), "state", "ok",
						"steps", list(20, func(int) any { return d("name", s.text(12), "ms", 400, "ok", true) })))
				}},
			},
		},
		{
			name: "sendungen", service: "radio", pays: "subset",
			why: "a show has hundreds of comments, its page shows the ten newest, and comments are written seldom",
			colls: []coll{{name: "sendungen", n: 250, indexes: []string{"kuerzel"}, doc: func(g gen, i int) bson.D {
				return d("_id", oid(14, i), "kuerzel", key("s", i), "titel", g.text(30),
					"kommentare", list(g.between(120, 320), func(j int) any {
						return d("_id", oid(15, i*500+j), "von", g.name(), "text", g.text(70), "am", at(j))
					}))
			}}},
			traffic: []requests{
				{200, func(s *session, _ int) {
					s.one("sendungen", d("kuerzel", key("s", s.IntN(250))), d("titel", 1, "kommentare", d("$slice", -10)))
				}},
				{8, func(s *session, i int) {
					comment := d("_id", oid(16, i), "von", s.name(), "text", s.text(70), "am", at(5000+i))
					s.update("sendungen", d("_id", oid(14, s.IntN(250))), d("$push", d("kommentare", comment)))
				}},
			},
		},
		{
			name: "stables", service: "farm", pays: "subset",
			why: "the newest five of hundreds of jobs are shown with the stable; they are pushed to the front, a few a day",
			colls: []coll{{name: "stables", n: 200, doc: func(g gen, i int) bson.D {
				n := g.between(150, 350)
				return d("_id", key("stable", i), "head", g.between(20, 300), "maintenance", list(n, func(j int) any {
					return d("id", uuid(5, i*400+j), "done_at", at(9000-j), "by", g.name(), "what", g.text(60))
				}))
			}}},
			traffic: []requests{
				{180, func(s *session, _ int) {
					s.find("stables", d("_id", key("stable", s.IntN(200))), by{fields: d("head", 1, "maintenance", d("$slice", 5))})
				}},
				{8, func(s *session, i int) {
					job := d("id", uuid(6, i), "done_at", at(9100+i), "by", s.name(), "what", s.text(60))
					s.update("stables", d("_id", key("stable", s.IntN(200))),
						d("$push", d("maintenance", d("$each", a{job}, "$position", 0))))
				}},
			},
		},
		{
			name: "makelaars", service: "property", pays: "subset",
			why: "the profile of an agent shows the three best of hundreds of ratings, which are seldom written and never change",
			colls: []coll{{name: "makelaars", n: 200, indexes: []string{"kantoor"}, doc: func(g gen, i int) bson.D {
				return d("_id", oid(17, i), "kantoor", i%40, "naam", g.name(),
					"beoordelingen", list(g.between(150, 300), func(j int) any {
						return d("_id", oid(18, i*400+j), "sterren", g.between(1, 50), "tekst", g.text(80), "op", at(j))
					}))
			}}},
			traffic: []requests{
				{180, func(s *session, _ int) {
					s.aggregate("makelaars", match("_id", oid(17, s.IntN(200))), d("$project", d("naam", 1,
						"best", d("$slice", a{d("$sortArray", d("input", "$beoordelingen", "sortBy", d("sterren", -1))), 3}))))
				}},
				{6, func(s *session, i int) {
					rating := d("_id", oid(19, i), "sterren", s.between(1, 50), "tekst", s.text(80), "op", at(4000+i))
					s.update("makelaars", d("_id", oid(17, s.IntN(200))), d("$push", d("beoordelingen", rating)))
				}},
			},
		},
		{
			name: "salles", service: "theatre", pays: "subset", fine: "relation",
			why: "the sheet of a hall unwinds, sorts and cuts its list to the ten newest of 250 inspections, at each read",
			colls: []coll{{name: "salles", n: 180, doc: func(g gen, i int) bson.D {
				return d("_id", i+100, "_t", "Salle", "nom", g.text(20), "inspections", list(g.between(150, 300), func(j int) any {
					return d("_id", uuid(7, i*400+j), "le", at(j), "par", g.name(), "remarque", g.text(60))
				}))
			}}},
			traffic: []requests{
				{160, func(s *session, _ int) {
					s.aggregate("salles", match("_id", 100+s.IntN(180)), d("$unwind", "$inspections"), d("$sort", d("inspections.le", -1)),
						d("$limit", 10), d("$project", d("nom", 1, "inspections", 1)))
				}},
				{6, func(s *session, i int) {
					seen := d("_id", uuid(8, i), "le", at(7000+i), "par", s.name(), "remarque", s.text(60))
					s.update("salles", d("_id", 100+s.IntN(180)), d("$push", d("inspections", seen)))
				}},
			},
		},
		{
			name: "richter", service: "court", pays: "subset",
			why: "a judge's page shows the eight newest of hundreds of decisions, by an aggregation that reads all of them",
			colls: []coll{{name: "richter", n: 150, doc: func(g gen, i int) bson.D {
				return d("_id", int64(i), "name", g.name(), "kammer", i%9, "entscheidungen", list(g.between(200, 400), func(j int) any {
					return d("az", fmt.Sprintf("%d/%d", i, j), "datum", at(j*5), "leitsatz", g.text(70))
				}))
			}}},
			traffic: []requests{
				{170, func(s *session, _ int) {
					s.aggregate("richter", match("_id", int64(s.IntN(150))),
						d("$project", d("name", 1, "kammer", 1, "neueste", d("$slice", a{"$entscheidungen", -8}))))
				}},
				{7, func(s *session, i int) {
					decision := d("az", fmt.Sprintf("neu/%d", i), "datum", at(20_000+i), "leitsatz", s.text(70))
					s.update("richter", d("_id", int64(s.IntN(150))), d("$push", d("entscheidungen", decision)))
				}},
			},
		},
		{
			name: "repos", service: "builds", pays: "subset",
			why: "the list of repositories shows the last five of hundreds of builds of each, and builds are rare next to visits",
			colls: []coll{{name: "repos", n: 200, indexes: []string{"org"}, doc: func(g gen, i int) bson.D {
				return d("_id", oid(20, i), "org", key("org", i%50), "name", g.text(14),
					"builds", list(g.between(150, 350), func(j int) any {
						return d("n", j, "sha", fmt.Sprintf("%040x", i*1000+j), "at", at(j), "ok", j%8 != 0)
					}))
			}}},
			traffic: []requests{
				{180, func(s *session, _ int) {
					s.find("repos", d("org", key("org", s.IntN(50))), by{fields: d("name", 1, "builds", d("$slice", -5))})
				}},
				{8, func(s *session, i int) {
					build := d("n", 1000+i, "sha", fmt.Sprintf("%040x", i), "at", at(6000+i), "ok", true)
					s.update("repos", d("_id", oid(20, s.IntN(200))), d("$push", d("builds", build)))
				}},
			},
		},
		{
			name: "chatrooms", service: "radio", fine: "relation|bucket|outlier", harm: "subset",
			why: "messages of the live chat are written more often than the newest are read, so a transaction for each would cost more",
			colls: []coll{{name: "chatrooms", n: 60, doc: func(g gen, i int) bson.D {
				return d("_id", key("room", i), "messages", list(g.between(150, 300), func(j int) any {
					return d("u", g.IntN(900), "t", minute(j), "m", g.text(50))
				}))
			}}},
			traffic: []requests{
				{80, func(s *session, _ int) {
					s.one("chatrooms", d("_id", key("room", s.IntN(60))), d("messages", d("$slice", -20)))
				}},
				{240, func(s *session, i int) {
					said := d("u", s.IntN(900), "t", minute(2000+i), "m", s.text(50))
					s.update("chatrooms", d("_id", key("room", s.IntN(60))), d("$push", d("messages", said)))
				}},
			},
		},
		{
			name: "jogadores", service: "league",
			why: "a player's sheet shows the whole career, and each list has a few dozen goals",
			colls: []coll{{name: "jogadores", n: 800, indexes: []string{"camisa"}, doc: func(g gen, i int) bson.D {
				return d("_id", oid(21, i), "camisa", i%99, "nome", g.name(), "gols", list(g.between(10, 60), func(j int) any {
					return d("data", at(j*24), "minuto", g.between(1, 90), "contra", g.city())
				}))
			}}},
			traffic: []requests{
				{130, func(s *session, _ int) { s.one("jogadores", d("_id", oid(21, s.IntN(800))), nil) }},
				{15, func(s *session, i int) {
					goal := d("data", at(3000+i), "minuto", 12, "contra", s.city())
					s.update("jogadores", d("_id", oid(21, s.IntN(800)), "gols.80", d("$exists", false)), d("$push", d("gols", goal)))
				}},
			},
		},
		{
			name: "pysakit", service: "council",
			why: "a stop shows the next three of at most twelve departures; twelve small entries need no second collection",
			colls: []coll{{name: "pysakit", n: 900, indexes: []string{"numero"}, doc: func(g gen, i int) bson.D {
				return d("_id", oid(22, i), "numero", i, "nimi", g.text(16),
					"lahdot", list(g.between(6, 12), func(j int) any { return d("linja", g.between(1, 80), "klo", minute(j*15)) }))
			}}},
			traffic: []requests{
				{160, func(s *session, _ int) {
					s.one("pysakit", d("numero", s.IntN(900)), d("nimi", 1, "lahdot", d("$slice", 3)))
				}},
				{10, func(s *session, _ int) {
					s.update("pysakit", d("_id", oid(22, s.IntN(900))), d("$set", d("lahdot", list(8, func(j int) any {
						return d("linja", j, "klo", minute(j*20))
					}))))
				}},
			},
		},
		{
			name: "suggestions", service: "auction", harm: "subset",
			why: "the best are shown by votes, which change more often than pages are read, and each could change the best",
			colls: []coll{{name: "suggestions", n: 80, doc: func(g gen, i int) bson.D {
				return d("_id", int64(i), "category", g.text(10), "ideas", list(120, func(j int) any {
					return d("id", j, "text", g.text(60), "votes", g.IntN(400))
				}))
			}}},
			traffic: []requests{
				{90, func(s *session, _ int) {
					s.aggregate("suggestions", match("_id", int64(s.IntN(80))), d("$unwind", "$ideas"),
						d("$sort", d("ideas.votes", -1)), d("$limit", 5))
				}},
				{300, func(s *session, _ int) {
					s.update("suggestions", d("_id", int64(s.IntN(80)), "ideas.id", s.IntN(120)), d("$inc", d("ideas.$.votes", 1)))
				}},
			},
		},
		{
			name: "urteile", service: "court", pays: "split",
			why: "lists of judgments show four small fields of documents of 15 kB, and few texts are opened",
			colls: []coll{{name: "urteile", n: 450, indexes: []string{"gericht,datum"}, doc: func(g gen, i int) bson.D {
				return d("_id", oid(23, i), "gericht", i%15, "datum", at(i*7), "az", key("az", i), "titel", g.text(50),
					"volltext", g.text(g.between(12_000, 18_000)))
			}}},
			traffic: []requests{
				{160, func(s *session, _ int) {
					s.find("urteile", d("gericht", s.IntN(15)), by{sort: d("datum", -1), fields: d("az", 1, "datum", 1, "titel", 1),
						limit: 20})
				}},
				{14, func(s *session, _ int) { s.one("urteile", d("_id", oid(23, s.IntN(450))), nil) }},
			},
		},
		{
			name: "specimens", service: "lab", pays: "split",
			why: "the spectrum is most of a specimen's bytes, and searches in the collection show only its label",
			colls: []coll{{name: "specimens", n: 350, indexes: []string{"species"}, doc: func(g gen, i int) bson.D {
				return d("_id", uuid(9, i), "species", key("sp", i%20), "collected", at(i*5), "shelf", g.between(1, 90),
					"spectrum", g.blob(g.between(14_000, 20_000)))
			}}},
			traffic: []requests{
				{150, func(s *session, _ int) {
					s.find("specimens", d("species", key("sp", s.IntN(20))), by{fields: d("species", 1, "collected", 1, "shelf", 1)})
				}},
				{10, func(s *session, _ int) { s.one("specimens", d("_id", uuid(9, s.IntN(350))), nil) }},
			},
		},
		{
			name: "folgen", service: "radio", pays: "split",
			why: "feeds leave out the transcript and the notes by an exclusion, and those are nearly the whole episode",
			colls: []coll{{name: "folgen", n: 450, indexes: []string{"reihe"}, doc: func(g gen, i int) bson.D {
				return d("_id", oid(24, i), "reihe", i%30, "nr", i/30, "titel", g.text(40), "dauer", g.between(600, 5400),
					"transkript", g.text(g.between(9000, 14_000)), "notizen", g.text(2500), "__v", 0)
			}}},
			traffic: []requests{
				{170, func(s *session, _ int) {
					s.find("folgen", d("reihe", s.IntN(30)), by{sort: d("nr", -1), fields: d("transkript", 0, "notizen", 0), limit: 15})
				}},
				{12, func(s *session, _ int) { s.one("folgen", d("_id", oid(24, s.IntN(450))), nil) }},
			},
		},
		{
			name: "kavels", service: "property", pays: "split",
			why: "result lists project a few fields after sort and limit, and leave out plan and description, 15 kB a document",
			colls: []coll{{name: "kavels", n: 400, indexes: []string{"gemeente,prijs"}, doc: func(g gen, i int) bson.D {
				return d("_id", int64(4_000_000+i), "gemeente", i%16, "prijs", g.between(50, 900)*1000, "m2", g.between(200, 4000),
					"plattegrond", g.blob(10_000), "omschrijving", g.text(g.between(3000, 6000)))
			}}},
			traffic: []requests{
				{150, func(s *session, _ int) {
					s.aggregate("kavels", match("gemeente", s.IntN(16)), d("$sort", d("prijs", 1)), d("$limit", 20),
						d("$project", d("prijs", 1, "m2", 1)))
				}},
				{12, func(s *session, _ int) { s.one("kavels", d("_id", int64(4_000_000+s.IntN(400))), nil) }},
			},
		},
		{
			name: "jobs", service: "builds", pays: "split",
			why: "boards poll states of jobs without their output, which is 12 kB and opened for one job in fifteen",
			colls: []coll{{name: "jobs", n: 400, indexes: []string{"queue"}, doc: func(g gen, i int) bson.D {
				return d("_id", uuid(10, i), "queue", key("q", i%16), "state", g.of("queued", "running", "done"), "started", minute(i),
					"output", g.text(g.between(9000, 15_000)))
			}}},
			traffic: []requests{
				{180, func(s *session, _ int) {
					s.find("jobs", d("queue", key("q", s.IntN(16))), by{fields: d("state", 1, "started", 1)})
				}},
				{12, func(s *session, _ int) { s.one("jobs", d("_id", uuid(10, s.IntN(400))), nil) }},
				{20, func(s *session, _ int) {
					s.update("jobs", d("_id", uuid(10, s.IntN(400))), d("$set", d("state", "done")))
				}},
			},
		},
		{
			name: "paatokset", service: "council", harm: "split",
			why: "the large text is what every read of a decision is for, so two documents would cost twice one",
			colls: []coll{{name: "paatokset", n: 300, indexes: []string{"diaari"}, doc: func(g gen, i int) bson.D {
				return d("_id", oid(25, i), "diaari", key("HEL", i), "pvm", at(i), "teksti", g.text(g.between(8000, 12_000)))
			}}},
			traffic: []requests{
				{140, func(s *session, _ int) { s.one("paatokset", d("diaari", key("HEL", s.IntN(300))), nil) }},
				{6, func(s *session, _ int) { s.find("paatokset", d("pvm", d("$lt", at(40))), by{fields: d("diaari", 1)}) }},
			},
		},
		{
			name: "vessels", service: "harbor",
			why: "what lists leave out is 300 bytes, for which a projection is enough",
			colls: []coll{{name: "vessels", n: 900, indexes: []string{"flag"}, doc: func(g gen, i int) bson.D {
				return d("_id", int64(200_000_000+i), "name", g.text(14), "flag", g.of("PT", "NL", "PA", "MT", "LR"),
					"draft", g.Float64()*14,
					"owner", d("name", g.name(), "address", g.text(90)), "remarks", g.text(180))
			}}},
			traffic: []requests{
				{130, func(s *session, _ int) {
					s.find("vessels", d("flag", s.of("PT", "NL", "PA", "MT", "LR")), by{fields: d("name", 1, "draft", 1), limit: 25})
				}},
				{20, func(s *session, _ int) { s.one("vessels", d("_id", int64(200_000_000+s.IntN(900))), nil) }},
			},
		},
		{
			name: "affiches", service: "theatre", harm: "split",
			why: "the picture is most of each poster, and the lists show the picture",
			colls: []coll{{name: "affiches", n: 350, indexes: []string{"saison"}, doc: func(g gen, i int) bson.D {
				return d("_id", uuid(11, i), "saison", i%14, "titre", g.text(30), "image", g.blob(g.between(8000, 12_000)),
					"credit", g.name())
			}}},
			traffic: []requests{
				{140, func(s *session, _ int) {
					s.find("affiches", d("saison", s.IntN(14)), by{fields: d("titre", 1, "image", 1), limit: 12})
				}},
			},
		},
		{
			name: "herdbook", service: "farm", harm: "split",
			why: "nine of ten reads open an animal with its history, and only one in ten is a list",
			colls: []coll{{name: "herdbook", n: 350, indexes: []string{"ear_tag", "barn"}, doc: func(g gen, i int) bson.D {
				return d("_id", oid(26, i), "ear_tag", key("DE", i), "barn", i%20, "born", at(i),
					"history", g.text(g.between(6000, 9000)))
			}}},
			traffic: []requests{
				{150, func(s *session, _ int) { s.one("herdbook", d("ear_tag", key("DE", s.IntN(350))), nil) }},
				{15, func(s *session, _ int) {
					s.find("herdbook", d("barn", s.IntN(20)), by{fields: d("ear_tag", 1, "born", 1)})
				}},
			},
		},
	}
}
