/**
 * Compares the rights on an object with the required ones, and returns the statements that change them. Independent of
 * the database.
 *
 * A right granted by a role other than the owner is left unchanged: only that role can revoke it.
 */
import pg from 'pg'

/** PUBLIC has the name of no role. */
export const PUBLIC = ''

export interface Right {
  readonly grantee: string
  readonly grantor: string
  /** As in the catalog: `SELECT`. */
  readonly privilege: string
  /** With grant option. */
  readonly isGrantable: boolean
}

/** The right without its grantor, which is the owner. */
export type RequiredRight = Omit<Right, 'grantor'>

/** Of PostgreSQL 15 to 18, for the objects of a schema and of a database. */
const PRIVILEGES: Readonly<Record<string, string>> = {
  a: 'INSERT',
  r: 'SELECT',
  w: 'UPDATE',
  d: 'DELETE',
  D: 'TRUNCATE',
  x: 'REFERENCES',
  t: 'TRIGGER',
  m: 'MAINTAIN',
  X: 'EXECUTE',
  U: 'USAGE',
  C: 'CREATE',
  T: 'TEMPORARY',
  c: 'CONNECT',
}
/** `"Grantee"=r*w/grantor` */
const ITEM = /^(?:"((?:[^"]|"")*)"|([^"=]*))=((?:[a-zA-Z]\*?)*)\/(?:"((?:[^"]|"")*)"|([^"]+))$/

/** @param items text of `aclitem[]` */
export const parseRights = (items: readonly string[]): Right[] =>
  items
    .flatMap((item) => {
      const [found, quotedGrantee, grantee = '', letters = '', quotedGrantor, grantor = ''] = ITEM.exec(item) ?? []
      if (found === undefined) throw new Error(`The text of rights "${item}" is unknown`)
      const name = (quoted: string | undefined, bare: string) => quoted?.replaceAll('""', '"') ?? bare
      return [...letters.matchAll(/(.)(\*?)/g)].map(([, letter = '', option]) => {
        const privilege = PRIVILEGES[letter]
        if (!privilege) throw new Error(`The privilege "${letter}" of the rights "${item}" is unknown`)
        return {
          grantee: name(quotedGrantee, grantee),
          grantor: name(quotedGrantor, grantor),
          privilege,
          isGrantable: option === '*',
        }
      })
    })
    .sort((a, b) => compare(a.grantee, b.grantee) || compare(a.privilege, b.privilege) || compare(a.grantor, b.grantor))

const compare = (one: string, other: string): number => (one < other ? -1 : one > other ? 1 : 0)

/** The place of a right in `grant … on …`. */
export interface RightTarget {
  /** `on table legacy.orders`, or `on tables` for default privileges. */
  readonly on: string
  /** `alter default privileges in schema legacy `; default none. */
  readonly prefix?: string
  /** A column of the table, quoted. */
  readonly column?: string
}

export const rights = (grantee: string, privileges: readonly string[]): RequiredRight[] =>
  privileges.map((privilege) => ({ grantee, privilege, isGrantable: false }))

/** The rights after the owner has changed: PostgreSQL replaces the owner as grantee and as grantor. */
export function afterOwnerChange(all: readonly Right[], from: string, to: string): Right[] {
  const renamed = (name: string) => (name === from ? to : name)
  const changed = new Map<string, Right>()
  for (const right of all) {
    const one = { ...right, grantee: renamed(right.grantee), grantor: renamed(right.grantor) }
    const key = `${keyOf(one)}\0${one.grantor}`
    changed.set(key, { ...one, isGrantable: one.isGrantable || changed.get(key)?.isGrantable === true })
  }
  return [...changed.values()]
}

/** The statements that give an object of `owner` exactly the required rights. */
export function rightStatements(
  target: RightTarget,
  owner: string,
  current: readonly Right[],
  required: readonly RequiredRight[],
): string[] {
  const now = new Map(current.filter(({ grantor }) => grantor === owner).map((right) => [keyOf(right), right]))
  const then = new Map(required.map((right) => [keyOf(right), right]))
  const revoked = [...now].filter(([key]) => !then.has(key)).map(([, right]) => right)
  const withoutOption = [...now].flatMap(([key, right]) =>
    right.isGrantable && then.get(key)?.isGrantable === false ? [right] : [],
  )
  const granted = [...then].flatMap(([key, right]) => {
    const has = now.get(key)
    return has && (has.isGrantable || !right.isGrantable) ? [] : [right]
  })
  return [
    ...statements(revoked, (list, grantee) => `revoke ${list} ${target.on} from ${grantee}`, target),
    ...statements(
      withoutOption,
      (list, grantee) => `revoke grant option for ${list} ${target.on} from ${grantee}`,
      target,
    ),
    ...[false, true].flatMap((isGrantable) =>
      statements(
        granted.filter((right) => right.isGrantable === isGrantable),
        (list, grantee) => `grant ${list} ${target.on} to ${grantee}${isGrantable ? ' with grant option' : ''}`,
        target,
      ),
    ),
  ]
}

const keyOf = ({ grantee, privilege }: RequiredRight): string => `${privilege}/${grantee}`

/** One statement for each grantee. */
const statements = (
  all: readonly RequiredRight[],
  text: (list: string, grantee: string) => string,
  { prefix = '', column }: RightTarget,
): string[] =>
  [...Map.groupBy(all, ({ grantee }) => grantee)].map(([grantee, own]) => {
    const list = own.map(({ privilege }) => `${privilege.toLowerCase()}${column === undefined ? '' : ` (${column})`}`)
    return `${prefix}${text(list.sort().join(', '), grantee === PUBLIC ? 'public' : pg.escapeIdentifier(grantee))}`
  })
