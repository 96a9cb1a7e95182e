# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# What every page of --html has to be.

# Every tag is closed by its own, no id is there twice, no attribute or element that loads or runs
# something. Prints the names of the elements.
check_markup() { # FILE
	python3 - "$1" <<-'END'
		import re, sys
		from html.parser import HTMLParser
		empty = {"meta", "link", "br", "path", "use", "rect", "circle", "polygon"}
		class Page(HTMLParser):
		    def __init__(self):
		        super().__init__()
		        self.open, self.ids, self.tags, self.targets = [], [], set(), []
		    def handle_starttag(self, tag, attributes):
		        self.tags.add(tag)
		        names = [name for name, _ in attributes]
		        assert len(names) == len(set(names)), (tag, names)
		        for name, value in attributes:
		            assert not name.startswith("on") and name not in ("src", "srcset", "xlink:href"), name
		            if name == "href":
		                assert value.startswith("#"), value
		                self.targets.append(value[1:])
		            if name == "id":
		                self.ids.append(value)
		        if tag not in empty:
		            self.open.append(tag)
		    def handle_startendtag(self, tag, attributes):
		        self.handle_starttag(tag, attributes)
		        if tag not in empty:
		            self.open.pop()
		    def handle_endtag(self, tag):
		        if tag not in empty:
		            assert self.open and self.open[-1] == tag, (tag, self.open, self.getpos())
		            self.open.pop()
		text = open(sys.argv[1]).read()
		page = Page()
		page.feed(text)
		page.close()
		assert not page.open, page.open
		assert len(page.ids) == len(set(page.ids)), "an id is there twice"
		assert not set(page.targets) - set(page.ids), set(page.targets) - set(page.ids)
		assert not re.search(r"https?:|url\((?!#)|@import|javascript:", text)
		assert not page.tags & {"script", "iframe", "img", "object", "embed", "link", "base", "form"}, page.tags
		assert not re.search(r">S\d+S_*<", text), "a placeholder was left"
		assert not re.search(r"rgb\(", text), "a colour that is no variable"
		print(*sorted(page.tags))
	END
}
