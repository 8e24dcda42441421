/** Cases of the program's own commands and text pages, for golden.test.ts and golden.program.test.ts. */

export interface ProgramCase {
  readonly line?: readonly string[]
  readonly stdin?: string
  readonly code?: number
  /** Selects one of the command's checks; other findings are not compared. */
  readonly only?: { readonly name: string }
}

/** On a database with the tenant `acme`; `{url}` is the URL of a service, `{directory}` a folder. */
export const BY_COMMAND_LINE: Readonly<Record<string, ProgramCase>> = {
  status: { line: ['--url', '{url}'] },
  doctor: { line: ['--config', '{directory}/other-plans.json'], code: 6, only: { name: 'plans' } },
  api: { line: ['GET', '/tenants/acme', '--url', '{url}'] },
  login: { line: ['{url}'], stdin: 'a-token-for-the-tests' },
  'profile:list': {},
  'profile:use': { line: ['default'] },
  'profile:remove': { line: ['default'] },
  openapi: { line: ['--out', '{directory}/openapi.json'] },
  completion: { line: ['bash'] },
  'backoffice:setup': {},
  'tenant:secrets:reencrypt': {},
  'tenant:repl': {
    line: ['acme'],
    stdin: 'console.log(JSON.stringify(await sql`select 1 as one`))',
  },
  'tenant:backup:run': { line: ['--config', '{directory}/daily-backups.json', '--allow-different-settings'] },
}

/** Commands that run until they are stopped. */
export const SERVING = ['serve', 'dev']

/** Commands that start processes: slow tests compare their output. */
export const STARTING_PROCESSES = ['tenant:each']

/** Text output without a terminal. */
export const PAGES: Readonly<Record<string, readonly string[]>> = {
  'tenant:list': [],
  'tenant:show': ['acme'],
  'tenant:exec': ['acme', '--sql', "select 1 as one, 'two' as two, null as three"],
  'tenant:migrate:status': [],
  'tenant:delete': ['unknown', '--yes'],
  'tenant:suspend': [],
}
