/** Prints the tour: a heading for each chapter, then lines of actions and results. Colour only on a terminal. */
import { styleText } from 'node:util'

const INDENT = '   '
const ACT_WIDTH = 66

let chapters = 0

export function heading(words: string): void {
  chapters++
  console.log(`\n${styleText('bold', `${chapters}. ${words}`)}`)
}

/** `POST /tenants {"name":…}   → 201 provisioning` */
export function act(what: string, outcome: string): void {
  const shown = cut(what, ACT_WIDTH)
  const gap = ' '.repeat(ACT_WIDTH - width(shown))
  console.log(`${INDENT}${shown}${gap} ${styleText('dim', '→')} ${styleText('green', outcome)}`)
}

export function say(words: string): void {
  console.log(INDENT + styleText('dim', words))
}

function cut(text: string, columns: number): string {
  if (width(text) <= columns) return text
  let kept = ''
  for (const character of text) {
    if (width(kept + character) >= columns) break
    kept += character
  }
  return `${kept}…`
}

const WIDE =
  /[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6]|\p{Emoji_Presentation}/u

/** Columns of a terminal: Chinese, Japanese and Korean characters have two, combining characters none. */
function width(text: string): number {
  let columns = 0
  for (const character of text.normalize('NFC')) columns += /\p{M}/u.test(character) ? 0 : WIDE.test(character) ? 2 : 1
  return columns
}
