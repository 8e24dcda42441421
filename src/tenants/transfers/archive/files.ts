/**
 * What the file of each table is called inside an archive: its name where that is plain, else percent-encoded. No two are one
 * file, also where upper and lower case are the same: `data/Users.csv`, `data/users~2.csv`. None is longer than a file system
 * takes. A name is looked up, never decoded: archive.json says which file is whose.
 */
const PLAIN = /^[A-Za-z0-9_][A-Za-z0-9_.-]*$/
const MAX_LENGTH = 200

/** Whatever a name is, its file lies in `data/`. */
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
