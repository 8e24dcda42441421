/**
 * File names of tables inside an archive: the table's name if it is plain, otherwise percent-encoded.
 *
 * - Names are distinct on case-insensitive file systems: `data/Users.csv`, `data/users~2.csv`.
 * - Names fit the length limit of file systems.
 * - Names are looked up in archive.json, never decoded.
 */
const PLAIN = /^[A-Za-z0-9_][A-Za-z0-9_.-]*$/
const MAX_LENGTH = 200

/** Any file name of a table is directly inside `data/`. */
export const TABLE_FILE = /^data\/[A-Za-z0-9_%][A-Za-z0-9_.%~-]{0,240}\.csv$/

export function tableFiles(names: readonly string[]): string[] {
  const taken = new Set<string>()
  return names.map((name) => {
    const plain = (PLAIN.test(name) ? name : percentEncoded(name)).slice(0, MAX_LENGTH)
    let free = plain
    for (let number = 2; taken.has(free.toLowerCase()); number++) free = `${plain}~${number}`
    taken.add(free.toLowerCase())
    return `data/${free}.csv`
  })
}

function percentEncoded(name: string): string {
  const characters = [...Buffer.from(name)].map((byte, index) => {
    const character = String.fromCharCode(byte)
    const isPlain = index === 0 ? /[A-Za-z0-9_]/.test(character) : /[A-Za-z0-9_.-]/.test(character)
    return isPlain ? character : `%${byte.toString(16).toUpperCase().padStart(2, '0')}`
  })
  return characters.join('') || '%'
}
