/**
 * Plans the generic screens of a satellite: which pages there are, and what each offers.
 *
 *   GET of { data }  ──► page with a list ──row──► page of GET {path}/{param}
 *   other GET        ──► page with its values
 *   other operations ──► forms: on the page below whose path they are; of a row; otherwise on the first page
 *   GET of a secret  ──► form, whose result is not kept
 *
 * - Operations of one tenant (`/tenants/{id}/…`) are on tabs of the tenant, others on screens with the path of the API.
 */
import { type HostOperation, paramsOf } from './operation.ts'

/** An operation of the rows of a list: the parameter `param` is the member `member` of a row. */
export interface RowOperation {
  readonly operation: HostOperation
  readonly param: string
  readonly member: string
}

export interface GenericPage {
  readonly satellite: string
  /** Path within the console; of a tenant's page the part after `/tenants/{id}/`. */
  readonly path: string
  readonly isOfTenant: boolean
  /** Whether it is the entry of the satellite. */
  readonly isEntry: boolean
  /** Undefined: the satellite has forms only. */
  readonly read: HostOperation | undefined
  /** All reads of the satellite. */
  readonly reads: readonly HostOperation[]
  /** The list whose rows open this page. */
  readonly parentList: HostOperation | undefined
  /** Reads that are opened from here, with the parameters of this page. */
  readonly links: readonly HostOperation[]
  /** Forms, also for parameters that no page supplies. */
  readonly forms: readonly HostOperation[]
  /** The page of a row. */
  readonly row: RowOperation | undefined
  readonly rowForms: readonly RowOperation[]
}

const TENANT = '/tenants/{id}/'

const isOfTenant = ({ path }: HostOperation): boolean => path.startsWith(TENANT)
const isRead = ({ method, result, isSecret }: HostOperation): boolean =>
  method === 'GET' && result !== 'none' && !isSecret
const isForm = ({ method, result, isSecret }: HostOperation): boolean =>
  method !== 'GET' || (isSecret && result !== 'none')
const ownParams = (operation: HostOperation): string[] =>
  isOfTenant(operation) ? paramsOf(operation).slice(1) : paramsOf(operation)

/** @param isTaken whether another screen has the path, such as `/tenants/{id}/notes` */
export function genericPages(
  operations: readonly HostOperation[],
  isTaken: (path: string) => boolean,
): readonly GenericPage[] {
  const groups = Map.groupBy(operations, (one) => `${one.satellite} ${isOfTenant(one)}`)
  return [...groups.values()].flatMap((group) => pagesOf(group, isTaken))
}

function pagesOf(operations: readonly HostOperation[], isTaken: (path: string) => boolean): GenericPage[] {
  const reads = operations.filter(isRead)
  const writes = operations.filter(isForm)
  const [{ satellite } = { satellite: '' }] = operations
  const isTenants = operations.some(isOfTenant)
  const free = reads.filter((read) => ownParams(read).length === 0)
  const entry = free.find(({ result }) => result === 'list') ?? free[0]
  const rowsOf = (read: HostOperation) =>
    read.result === 'list' ? operations.flatMap((one) => rowOperation(read, one) ?? []) : []
  const pages = reads.map((read) => {
    const rows = rowsOf(read)
    const hasOwnParams = ownParams(read).length > 0
    return {
      satellite,
      path: pathOf(read, isTaken),
      isOfTenant: isTenants,
      isEntry: read === entry,
      read,
      reads,
      parentList: reads.find((one) => rowsOf(one).some(({ operation }) => operation === read)),
      links: reads.filter((one) => one !== read && hasAllParams(read, one) && (!hasOwnParams || isSubpath(one, read))),
      forms: writes.filter((one) => hasAllParams(read, one) && (!hasOwnParams || isSubpath(one, read))),
      row: rows.find(({ operation }) => isRead(operation)),
      rowForms: rows.filter(({ operation }) => !isRead(operation)),
    }
  })
  const reached = new Set(
    pages.flatMap(({ read, links, forms, row, rowForms }) => [
      ...(ownParams(read).length === 0 ? [read] : []),
      ...links,
      ...forms,
      ...(row ? [row.operation] : []),
      ...rowForms.map(({ operation }) => operation),
    ]),
  )
  const others = [...reads, ...writes].filter((one) => !reached.has(one))
  if (entry) return pages.map((page) => (page.isEntry ? { ...page, forms: [...page.forms, ...others] } : page))
  if (others.length === 0) return pages
  const path = isTenants ? prefixOf(satellite) : `/${prefixOf(satellite)}`
  const start = { satellite, path, isOfTenant: isTenants, isEntry: true, read: undefined }
  const nothing = { reads, parentList: undefined, links: [], row: undefined, rowForms: [] }
  return [{ ...start, ...nothing, forms: others }, ...pages]
}

/** Whether a page has all parameters of an operation. */
const hasAllParams = (page: HostOperation, operation: HostOperation): boolean =>
  ownParams(operation).every((name) => ownParams(page).includes(name))

const isSubpath = ({ path }: HostOperation, page: HostOperation): boolean =>
  path === page.path || path.startsWith(`${page.path}/`)

/** `GET /notes/{noteId}` and `POST /notes/{noteId}/archive` are operations of the rows of `GET /notes`. */
function rowOperation(list: HostOperation, operation: HostOperation): RowOperation | undefined {
  const [, param, rest = ''] = operation.path.startsWith(`${list.path}/`)
    ? (/^\/\{(\w+)\}(\/.*)?$/.exec(operation.path.slice(list.path.length)) ?? [])
    : []
  if (!param || rest.includes('{') || !(isForm(operation) || (isRead(operation) && rest === ''))) return undefined
  const member = [param, 'id', 'key', 'name'].find((one) => list.columns.includes(one))
  return member ? { operation, param, member } : undefined
}

/** The read of the object that an operation changes: it has the same path, and its parameters are given. */
export const stateRead = (
  { reads }: GenericPage,
  { path }: HostOperation,
  given: Readonly<Record<string, string>>,
): HostOperation | undefined =>
  reads.find(
    (read) =>
      read.path === path &&
      read.result === 'value' &&
      paramsOf(read).every((name) => given[name] !== undefined) &&
      Object.values(read.query).every(({ required }) => !required),
  )

/** The path of the API, unless another screen has it. */
function pathOf(read: HostOperation, isTaken: (path: string) => boolean): string {
  const own = isTaken(read.path)
  const rest = isOfTenant(read) ? read.path.slice(TENANT.length) : read.path.slice(1)
  const path = own ? `${prefixOf(read.satellite)}/${rest}` : rest
  return isOfTenant(read) ? path : `/${path}`
}

const prefixOf = (satellite: string): string => `satellite-${satellite}`

/** Whether two paths can be the same address: a parameter is equal to everything. */
export function overlap(a: string, b: string): boolean {
  const [first, second] = [a, b].map((path) => path.split('/').filter(Boolean))
  if (first?.length !== second?.length) return false
  const isParam = (segment: string) => segment.startsWith('{')
  return (first ?? []).every((one, at) => {
    const other = second?.[at] ?? ''
    return one === other || isParam(one) || isParam(other)
  })
}

/** `noteId` is "Note id". */
export function titleOf(name: string): string {
  const words = name.replaceAll(/([a-z0-9])([A-Z])/g, '$1 $2').replaceAll(/[_.-]+/g, ' ')
  return words.charAt(0).toUpperCase() + words.slice(1).toLowerCase()
}
