/**
 * The first tokens of an SQL text as PostgreSQL reads them: lower-case words and single other characters. Skips blanks,
 * nested comments and empty statements; one `;` ends a statement. Linear in the length of the text.
 *
 *   leadingTokens('-- trace\n ;COMMIT and chain;; ', 10) // ['commit', 'and', 'chain', ';']
 */
const WORD = /[a-z_\u0080-\uffff][\w$\u0080-\uffff]*/iy
const BLANKS = ' \t\n\r\f\v'
const IN_COMMENT = /\/\*|\*\//g
const LINE_END = /[\n\r]/g

export function leadingTokens(text: string, count: number): string[] {
  const tokens: string[] = []
  let at = 0
  while (tokens.length < count && at < text.length) {
    WORD.lastIndex = at
    const word = WORD.exec(text)?.[0]
    if (word) {
      tokens.push(word.toLowerCase())
      at += word.length
    } else if (text.startsWith('--', at)) at = endOfLine(text, at)
    else if (text.startsWith('/*', at)) at = endOfComment(text, at)
    else {
      const char = text.charAt(at++)
      if (char === ';' ? tokens.length > 0 && tokens.at(-1) !== ';' : !BLANKS.includes(char)) tokens.push(char)
    }
  }
  return tokens
}

function endOfLine(text: string, from: number): number {
  LINE_END.lastIndex = from
  return LINE_END.test(text) ? LINE_END.lastIndex : text.length
}

function endOfComment(text: string, from: number): number {
  IN_COMMENT.lastIndex = from
  let depth = 0
  for (let mark = IN_COMMENT.exec(text); mark; mark = IN_COMMENT.exec(text)) {
    depth += mark[0] === '/*' ? 1 : -1
    if (depth === 0) return IN_COMMENT.lastIndex
  }
  return text.length
}
