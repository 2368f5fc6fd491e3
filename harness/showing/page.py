"""The shell of a page and how it looks; no fonts, scripts or styles from anywhere else."""

from string import Template

# The policy forbids every load from elsewhere: the page is the same without a network, and in ten years.
PAGE = Template("""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src 'unsafe-inline'; \
style-src 'unsafe-inline'; img-src data: blob:">
$head<title>$title</title>
<style>
$style
</style>
</head>
<body>
<header id="picture">
<p class="kind">$kind</p>
<h1>$title</h1>
<p class="what">$what</p>
</header>
<main>
$body
</main>
<script>$plotly</script>
$scripts
</body>
</html>
""")

STYLE = """
:root { color-scheme: light; --ink: #1f2933; --pale: #52606d; --rule: #e4e7eb; --soft: #f5f7fa; }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 1120px; padding: 1.5rem 1.25rem 4rem; background: #fff; color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
h1 { margin: 0; font-size: 1.9rem; line-height: 1.2; font-weight: 650; text-wrap: balance; }
h2 { margin: 2.6rem 0 .5rem; font-size: 1.2rem; font-weight: 650; }
h3 { margin: 0; font-size: 1rem; font-weight: 600; }
p, main li { margin: .4rem 0; max-width: 76ch; }
main ul { margin: .3rem 0; padding-left: 1.2rem; }
main li { margin: .2rem 0; }
code { font-size: .9em; overflow-wrap: anywhere; }
h2 ~ h3 { margin-top: 1.2rem; }
.kind { margin: 0 0 .2rem; font-size: .8rem; letter-spacing: .06em; text-transform: uppercase;
  color: var(--pale); }
.what, .note { color: var(--pale); font-size: .92rem; }
.answers { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 400px), 1fr)); gap: 1.2rem;
  margin-top: 1.6rem; }
.answer { border: 1px solid var(--rule); border-top: 4px solid var(--line); border-radius: 4px;
  padding: 1rem 1.15rem; }
.answer .label { color: var(--pale); font-weight: 500; }
.answer .peak { font-size: 1.55rem; font-weight: 650; line-height: 1.25; margin: .1rem 0 .1rem; }
.answer .sure { color: var(--pale); font-size: .92rem; margin-bottom: .7rem; }
.warnings { margin-top: 1.4rem; padding: .6rem 1.1rem; border-left: 4px solid #b7791f;
  background: #fffaf0; }
.warnings ul { margin: .2rem 0 .3rem; padding-left: 1.2rem; }
.dot { display: inline-block; width: .7em; height: .7em; border-radius: 50%; background: var(--line);
  margin-right: .45em; vertical-align: baseline; }
.panels { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 400px), 1fr));
  gap: 1.2rem 1.6rem; }
.three { grid-template-columns: repeat(auto-fit, minmax(min(100%, 270px), 1fr)); }
figure { margin: .4rem 0 0; min-width: 0; }
figcaption { font-size: .92rem; font-weight: 600; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums;
  margin: .3rem 0 .6rem; }
th, td { padding: .28rem .55rem; text-align: right; white-space: nowrap;
  border-bottom: 1px solid var(--rule); }
th { color: var(--pale); font-weight: 600; vertical-align: bottom; }
th small { display: block; font-weight: 400; }
td.words, th.words { text-align: left; white-space: normal; min-width: 14rem; max-width: 34rem; }
tr.best td { background: var(--soft); }
tr.best td:not(.words) { font-weight: 650; }
tr.broken td { color: var(--pale); }
tr.broken td:first-child::after { content: " ○"; }
tr.member td:first-child::before { content: "● "; color: var(--line); }
.hint { text-decoration: underline dotted; text-underline-offset: .2em; cursor: help; }
caption { text-align: left; font-weight: 600; padding: .9rem 0 .3rem; }
details { margin: .6rem 0; }
summary { cursor: pointer; color: var(--pale); font-size: .92rem; }
.facts td, .facts th { text-align: left; vertical-align: top; white-space: normal; overflow-wrap: anywhere; }
.marks td { min-width: 4.5rem; overflow-wrap: normal; }
.marks td:nth-last-child(-n+2) { min-width: 14rem; }
.facts th { white-space: nowrap; font-weight: 500; }
tr.rejected td { color: var(--pale); }
td s { text-decoration-color: #b00020; }
tr.group th { text-align: left; color: var(--ink); padding-top: .8rem; }
tr.group small { display: inline; margin-left: .6em; }
.results td:first-child, .results th:first-child { text-align: left; }
.results td.words, .results th.words { min-width: 7rem; }
/* PAGE.html#picture is the part that makes a picture. */
#picture:target ~ main > :not(.picture), #picture:target ~ main .modebar { display: none; }
@media print { details { display: none; } }
"""
