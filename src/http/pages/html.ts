/** Markup that is not escaped again. Created only from constant text, never from a value. */
interface Trusted {
  readonly markup: string
}

/**
 * A template in which every value is escaped, for text and for quoted attributes alike:
 * html`<a href="${url}">${name}</a>`
 */
export function html(strings: TemplateStringsArray, ...values: readonly (string | Trusted)[]): string {
  return strings.reduce((page, text, index) => page + markup(values[index - 1] ?? '') + text)
}

export function trusted(markup: string): Trusted {
  return { markup }
}

function markup(value: string | Trusted): string {
  return typeof value === 'string' ? value.replace(/[&<>"']/g, (character) => ENTITIES[character] ?? '') : value.markup
}

const ENTITIES: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' }
