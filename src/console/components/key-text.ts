/** Text of a key for operators: `R` is `Shift R`, `Escape` is `Esc`. */
export const keyText = (key: string): string => (/^\p{Lu}$/u.test(key) ? `Shift ${key}` : key.replace('Escape', 'Esc'))
