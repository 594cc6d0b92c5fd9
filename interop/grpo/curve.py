"""The reward curve as an SVG that reads on a light and on a dark page, without a plotting library."""

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 640, 320, 56, 24, 40, 48
STYLE = """
  text { font: 13px system-ui, sans-serif; fill: #444 }
  .grid { stroke: #8884; fill: none }
  .curve { stroke: #2a7f4f; stroke-width: 2.5; fill: none }
  .dot { fill: #2a7f4f }
  @media (prefers-color-scheme: dark) { text { fill: #bbb } .curve { stroke: #5fc08a } .dot { fill: #5fc08a } }
"""


def draw(path, rewards, caption):
    """Mean reward of each step, from 0 to 1."""

    def x(step):
        return LEFT + step * (WIDTH - LEFT - RIGHT) / max(1, len(rewards) - 1)

    def y(reward):
        return HEIGHT - BOTTOM - reward * (HEIGHT - TOP - BOTTOM)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">',
        f"<title>Mean reward of each step: {', '.join(f'{reward:.2f}' for reward in rewards)}</title>",
        f"<style>{STYLE}</style>",
        f'<text x="{LEFT}" y="24">mean reward of a step ({caption})</text>',
    ]
    for tick in (0, 0.25, 0.5, 0.75, 1):
        parts.append(f'<path class="grid" d="M{LEFT} {y(tick):.1f}H{WIDTH - RIGHT}"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y(tick) + 4:.1f}" text-anchor="end">{tick}</text>')
    points = [(x(step), y(reward)) for step, reward in enumerate(rewards)]
    for step, (at, _) in enumerate(points):
        parts.append(f'<text x="{at:.1f}" y="{HEIGHT - BOTTOM + 20}" text-anchor="middle">{step}</text>')
    parts.append(f'<text x="{WIDTH - RIGHT}" y="{HEIGHT - 8}" text-anchor="end">step</text>')
    parts.append(f'<path class="curve" d="M{"L".join(f"{at:.1f} {height:.1f}" for at, height in points)}"/>')
    parts += [f'<circle class="dot" cx="{at:.1f}" cy="{height:.1f}" r="4"/>' for at, height in points]
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join([*parts, "</svg>\n"]))
