/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "common/page.h"

#include <errno.h>
#include <stdbool.h>
#include <unistd.h>

#include "common/cli.h"
#include "common/html.h"

/* ---- the style ------------------------------------------------------------------------------ */

/* The colours can be told apart by colour-blind readers (Okabe and Ito), and by dashes and shapes
 * without colours. */

static const char light[] =
	"color-scheme:light;--page:#fff;--text:#1b1f24;--muted:#59636e;--grid:#d8dee4;"
	"--card:#f6f8fa;--line:#d1d9e0;--without:#0072b2;--with:#b84a00;--mark:#9a2c78;"
	"--worse:#b84a00;--better:#00795c;--p0:#0072b2;--p1:#e69f00;--p2:#009e73;--p3:#cc79a7;"
	"--p4:#56b4e9;--p5:#d55e00;--p6:#6e7781;--p7:#8a6d00;";

static const char dark[] =
	"color-scheme:dark;--page:#14171c;--text:#e6e9ee;--muted:#9aa4b0;--grid:#2c333c;"
	"--card:#1c2128;--line:#363d47;--without:#56b4e9;--with:#f39a3e;--mark:#e39ac8;"
	"--worse:#f39a3e;--better:#3fc79a;--p0:#56b4e9;--p1:#f0b32e;--p2:#2fbf91;--p3:#df9cc2;"
	"--p4:#9ad4f5;--p5:#f07f3c;--p6:#a3acb6;--p7:#c9a93a;";

static const char rules[] =
	"*{box-sizing:border-box}"
	"body{margin:0;background:var(--page);color:var(--text);"
	"font:16px/1.5 system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif}"
	"main{max-width:62rem;margin:0 auto;padding:1.25rem 1rem 3rem;overflow-wrap:anywhere}"
	"h1{font-size:1.75rem;line-height:1.2;margin:0 0 .5rem}"
	"h2{font-size:1.3rem;margin:2.5rem 0 .5rem;padding-top:.75rem;"
	"border-top:1px solid var(--line)}"
	"h3{font-size:1rem;margin:0 0 .25rem}"
	"p{margin:.5rem 0}.lead{font-size:1.15rem}.note,figcaption{color:var(--muted);"
	"font-size:.9rem}"
	".state{border-left:4px solid var(--worse);padding:.25rem .75rem;background:var(--card)}"
	".cards{display:grid;gap:.75rem;margin:1rem 0;padding:0;list-style:none;"
	"grid-template-columns:repeat(auto-fit,minmax(min(100%,16rem),1fr))}"
	".cards li{background:var(--card);border:1px solid var(--line);border-radius:.5rem;"
	"padding:.75rem .9rem}"
	".cards .change{font-size:1.6rem;font-weight:650;line-height:1.2}"
	".cards .verdict{font-weight:600}.worse{color:var(--worse)}.better{color:var(--better)}"
	"nav{font-size:.9rem;margin:.5rem 0}nav a{margin-right:1rem;display:inline-block}"
	"a{color:var(--without)}"
	".figures{display:grid;gap:1.5rem;"
	"grid-template-columns:repeat(auto-fit,minmax(min(100%,19rem),1fr))}"
	".figures>.whole{grid-column:1/-1}"
	"figure{margin:0;min-width:0;break-inside:avoid}"
	"figure svg{display:block;width:100%;height:auto;max-width:30rem;overflow:visible;"
	"font:12px system-ui,'DejaVu Sans',sans-serif;color:var(--text)}"
	"figure svg.wide{max-width:62rem}figure svg.drawing{max-width:62rem;min-width:44rem}figure "
	"svg.either{display:none}"
	"@media screen and (max-width:44rem){figure svg.wide{display:none}"
	"figure svg.either{display:block}}"
	".legend{display:flex;flex-wrap:wrap;gap:.15rem 1.1rem;margin:.25rem 0 .75rem;padding:0;"
	"list-style:none;font-size:.9rem}"
	".legend svg{width:30px;height:12px;vertical-align:-1px;margin-right:.4rem}"
	".marks{margin:.25rem 0;padding-left:1.6rem;font-size:.9rem}"
	".scroll{overflow-x:auto;margin:.75rem 0}"
	"table{border-collapse:collapse;font-size:.85rem;font-variant-numeric:tabular-nums;"
	"width:100%;overflow-wrap:normal}"
	"caption{text-align:left;color:var(--muted);padding-bottom:.25rem}"
	"th,td{padding:.3rem .6rem .3rem 0;border-bottom:1px solid var(--line);text-align:right;"
	"vertical-align:top;white-space:nowrap}"
	"th.t,td.t{text-align:left}td.w{white-space:normal;text-align:left}"
	"thead th{border-bottom:2px solid var(--line)}tbody th{font-weight:600}"
	"details{margin:.5rem 0}summary{cursor:pointer}"
	"dl{display:grid;grid-template-columns:minmax(6rem,14rem) 1fr;gap:.2rem 1rem;"
	"font-size:.9rem;margin:0}dt{color:var(--muted)}dd{margin:0;min-width:0}"
	"code{font:.9em ui-monospace,'DejaVu Sans Mono',monospace}"
	".points{position:absolute;width:0;height:0}"
	"@media print{body{font-size:10pt}main{max-width:none;padding:0}nav{display:none}"
	"h2,h3,caption,.legend{break-after:avoid}tr,li{break-inside:avoid}"
	"thead{display:table-header-group}.scroll{overflow:visible}"
	"table{font-size:7pt}th,td{white-space:normal;padding-right:.3rem}"
	"details::details-content{content-visibility:visible;block-size:auto}"
	".figures{grid-template-columns:1fr 1fr;gap:1rem}}";

static void style(FILE *f)
{
	fprintf(f,
		"<style>:root{%s}"
		"@media screen and (prefers-color-scheme:dark){:root{%s}}%s</style>\n",
		light, dark, rules);
}

/* ---- the page ------------------------------------------------------------------------------- */

void page_begin(FILE *f, const char *title, const char *definitions)
{
	fputs("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
	      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">"
	      "<meta name=\"color-scheme\" content=\"light dark\">"
	      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
	      "style-src 'unsafe-inline'\"><title>",
	      f);
	html_text(f, title);
	fputs("</title>\n", f);
	style(f);
	fprintf(f, "</head><body>\n%s<main>\n<h1>", definitions);
	html_text(f, title);
	fputs("</h1>\n", f);
}

void page_end(FILE *f)
{
	fputs("</main></body></html>\n", f);
}

void page_swatch(FILE *f, const char *shape, const char *text)
{
	fprintf(f, "<li><svg viewBox=\"0 0 30 12\" aria-hidden=\"true\">%s</svg>", shape);
	html_text(f, text);
	fputs("</li>", f);
}

int page_write(const char *path, void (*fill)(FILE *f, void *arg), void *arg)
{
	char *temporary = format_text("%s.%ld", path, (long)getpid());
	FILE *f = fopen(temporary, "we");
	bool written;
	int status;

	if (!f)
		return -errno;
	fill(f, arg);
	written = !ferror(f);
	written = !fclose(f) && written && !rename(temporary, path);
	status = written ? 0 : errno ? -errno : -EIO;
	if (!written)
		unlink(temporary);
	return status;
}
