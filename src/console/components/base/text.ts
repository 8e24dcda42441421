/** Texts of the components. */
import { Problem } from '../../data/problem.ts'

const list = new Intl.ListFormat('en', { type: 'conjunction' })
const number = new Intl.NumberFormat('en')

export const formatNumber = (value: number): string => number.format(value)
/** `1 tenant`, `2,000 tenants`. */
export const counted = (count: number, one: string, many = `${one}s`): string =>
  `${formatNumber(count)} ${count === 1 ? one : many}`
export const formatBytes = (bytes: number): string => {
  const power = bytes < 1024 ? 0 : Math.min(Math.floor(Math.log2(bytes) / 10), 4)
  const value = bytes / 1024 ** power
  return `${value.toLocaleString('en', { maximumFractionDigits: value < 10 && power > 0 ? 1 : 0 })} ${['B', 'KiB', 'MiB', 'GiB', 'TiB'][power]}`
}

export const text = {
  actions: 'Actions',
  actionsOf: (name: string) => `Actions for ${name}`,
  of: (name: string) => `of ${name}`,
  select: (name: string) => `Select ${name}`,
  selectAll: 'Select all rows',
  selected: (count: number) => `${formatNumber(count)} selected`,
  clearSelection: 'Clear selection',
  older: 'Load more',
  loading: 'Loading',
  columns: 'Columns',
  moveUp: (column: string) => `Move ${column} up`,
  moveDown: (column: string) => `Move ${column} down`,
  movedTo: (column: string, position: number) => `${column} is column ${formatNumber(position)}`,
  moveHint: 'Alt and an arrow key move a column.',
  resetColumns: 'Reset',
  unknown: 'unknown',
  close: 'Close',
  cancel: 'Cancel',
  done: 'Done',
  readOnly: 'Read only',
  exportCsv: 'Export CSV',
  shownEarlier: 'An earlier, equal call has already returned it. It cannot be shown again.',
  undo: 'Undo',
  dismiss: 'Dismiss',
  retry: 'Retry',
  retryIn: (seconds: number) => `Retry in ${seconds} s`,
  copy: 'Copy',
  copied: 'Copied',
  copyValue: (value: string) => `Copy ${value}`,
  none: 'None',
  required: 'required',
  search: 'Search',
  notifications: 'Notifications',
  confirmWord: (word: string) => [`Enter `, word, ` to confirm`] as const,
  showCall: 'Show the API call',
  command: 'Command',
  changedMeanwhile: 'Another operator changed this meanwhile.',
  deletedMeanwhile: 'It was deleted.',
  load: 'Load',
  applyMine: 'Apply mine',
  earlier: 'Show earlier rows',
  dropped: 'The address has values that do not apply here. They are ignored:',
  droppedList: 'Ignored values',
  moreDropped: (count: number) => `${formatNumber(count)} more`,
  removeAll: 'Remove all',
  code: 'Code',
  shownPart: (shown: number, all: number) =>
    `The first ${formatNumber(shown)} of ${formatNumber(all)} characters. “Copy” copies all of them.`,
  requestId: 'Request id',
  noJson: 'Enter a JSON object.',
  noJsonValue: 'Enter a JSON value: text in double quotes, a number, a list or an object.',
  clear: 'Clear',
  clearField: (label: string) => `Clear ${label}`,
  oneByLine: 'One in each line',
  added: 'added',
  removed: 'removed',
  noDifferences: 'No differences',
  filters: 'Filters',
  clearAll: 'Clear all',
  remove: (name: string) => `Remove ${name}`,
  noOptions: 'No results',
  exportJson: 'Export JSON',
  asTable: 'As a table',
  hour: 'Hour',
  day: 'Day (UTC)',
  chartKeys: 'Arrow keys read the values.',
  chartSelection: 'Arrow keys read the values. Shift and arrow keys select a period.',
  forbiddenTitle: 'Not permitted',
  forbidden: (token: string, operations: readonly string[]) => `“${token}” may not call ${list.format(operations)}.`,
}

/** Texts of error codes whose `detail` is not enough for an operator. Others show their detail. */
const HINTS: Readonly<Record<string, string>> = {
  E_UNREACHABLE: 'Data stays on the page. The console tries again.',
  E_DEPENDENCY_UNAVAILABLE: 'A dependency of the service is unavailable. See System.',
  E_DEADLINE_EXCEEDED: 'The service did not finish in time.',
}

export const hintOf = (error: unknown): string | undefined => (error instanceof Problem ? HINTS[error.code] : undefined)
