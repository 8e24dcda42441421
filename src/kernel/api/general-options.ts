/** Options that commands of several operations have. */
import { parsed } from '../base/validate.ts'
import type { Option } from './commands.ts'
import { DEFAULT_LIMIT, MAX_LIMIT, Page } from './page.ts'

export const PAGING: Readonly<Record<string, Option>> = {
  limit: {
    flags: '--limit <count>',
    summary: `maximum number (1 to ${MAX_LIMIT})`,
    parse: (text) => parsed(Page.shape.limit, text),
    default: DEFAULT_LIMIT,
  },
  cursor: { flags: '--cursor <cursor>', summary: 'nextCursor of the previous page' },
}
export const ALL: Option = {
  flags: '--all',
  summary: 'all pages, one after the other; with --json one item on each line',
}
export const DRY_RUN: Option = { flags: '--dry-run', summary: 'only show the plan' }
