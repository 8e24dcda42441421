/**
 * `npm run generate`: what is written from the code and committed, so that a reader and a review see it change: the OpenAPI
 * document, the schema of the backoffice, the reference, the README's examples. test/generated.test.ts says when one is stale.
 */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { z } from 'zod'
import { allCommands } from './src/cli/program.ts'
import type { AnyOperation } from './src/satellite.ts'
import { type Catalogue, catalogueOf, openApiOf } from './src/service/catalogue.ts'
import { satellites } from './src/service/main.ts'

const ROOT = import.meta.dirname
const HEAD = '<!-- made by `npm run generate`; edit the code instead -->\n'

/** Every generated file by its path, with what it should hold now. */
export function generated(): Map<string, string> {
  const catalogue = catalogueOf(satellites)
  return new Map([
    ['openapi.json', `${JSON.stringify(openApiOf(catalogue), null, 2)}\n`],
    ['schema.sql', schema(catalogue)],
    ['docs/reference/operations.md', operationsPage(catalogue.operations)],
    ['docs/reference/events.md', eventsPage(catalogue)],
    ['docs/reference/errors.md', errorsPage(catalogue.operations)],
    ['docs/reference/commands.md', commandsPage()],
    ['README.md', withExamples(readFileSync(join(ROOT, 'README.md'), 'utf8'))],
  ])
}

function schema({ tables }: Catalogue): string {
  const parts = tables.flatMap(({ part, migrations }) =>
    migrations.map(({ name, up }) => `-- ${part}/${name}\n${undent(up)}\n`),
  )
  return `-- made by \`npm run generate\`: every migration of the backoffice, in order; all of it in the schema multitenancy\n\n${parts.join('\n')}`
}

function operationsPage(operations: readonly AnyOperation[]): string {
  const rows = operations.map(({ name, method, path, summary, status, reply, errors = [] }) => {
    const success = reply instanceof z.ZodVoid ? 204 : (status ?? 200)
    return `| \`${method} ${path}\` | \`${name}\` | ${summary} | ${success} | ${errors.map(({ code }) => `\`${code}\``).join(' ')} |`
  })
  return page('Operations', 'Paths are below the prefix (`/admin/multitenancy`). Shapes are in `openapi.json`.', [
    '| path | operation | | answers | beside the errors of every operation |',
    '|---|---|---|---|---|',
    ...rows,
  ])
}

function eventsPage({ events, jobs }: Catalogue): string {
  const eventRows = events.map(
    ({ name, summary, own }) =>
      `| \`${name}\` | ${summary} | ${Object.keys(own.shape)
        .map((key) => `\`${key}\``)
        .join(', ')} |`,
  )
  const jobRows = jobs.map(({ name, summary, retries = 3 }) => `| \`tenantry.${name}\` | ${summary} | ${retries} |`)
  return page('Events and jobs', 'Every event also has `id` (UUIDv7), `occurredAt` and `requestId`.', [
    '| event | when | members |',
    '|---|---|---|',
    ...eventRows,
    '',
    '| job | what it does | retries |',
    '|---|---|---|',
    ...jobRows,
  ])
}

function errorsPage(operations: readonly AnyOperation[]): string {
  const document = openApiOf({ operations, events: [], jobs: [], tables: [] }) as {
    paths: Record<string, Record<string, { responses: Record<string, { description: string }> }>>
  }
  const codes = new Map<string, string>()
  for (const path of Object.values(document.paths)) {
    for (const { responses } of Object.values(path)) {
      for (const [status, { description }] of Object.entries(responses)) {
        for (const [code] of description.matchAll(/E_[A-Z_]+/g)) codes.set(code, status)
      }
    }
  }
  const rows = [...codes].sort(([a], [b]) => a.localeCompare(b)).map(([code, status]) => `| \`${code}\` | ${status} |`)
  return page('Error codes', 'Errors are RFC 9457 problems; programs look at `code`, which is stable.', [
    '| code | status |',
    '|---|---|',
    ...rows,
  ])
}

function commandsPage(): string {
  const rows = allCommands().map(
    ({ name, summary, arguments: args = [], options = [] }) =>
      `| \`${[name, ...args.map((one) => (one.required ? `<${one.name}>` : `[${one.name}]`))].join(' ')}\` | ${summary} | ${options.map(({ flags }) => `\`${flags}\``).join(' ')} |`,
  )
  return page(
    'Commands',
    '`tenantry <command>`; in the repository `npm run -s tenantry -- <command>`. Every command has `--json` and `--config <file>`.',
    ['| command | | options |', '|---|---|---|', ...rows],
  )
}

const page = (title: string, intro: string, lines: readonly string[]): string =>
  `${HEAD}\n# ${title}\n\n${intro}\n\n${lines.join('\n')}\n`

/** Puts the files that `<!-- example: path -->` names into the code blocks below them. */
function withExamples(text: string): string {
  return text.replaceAll(/(<!-- example: (\S+) -->\n```(\w+)\n)[\s\S]*?```/g, (_, head: string, path: string) => {
    return `${head}${readFileSync(join(ROOT, path), 'utf8').trimEnd()}\n\`\`\``
  })
}

function undent(sql: string): string {
  const lines = sql.replace(/^\n+|\s+$/g, '').split('\n')
  const depth = Math.min(...lines.filter((line) => line.trim()).map((line) => /^ */.exec(line)?.[0].length ?? 0))
  return lines.map((line) => line.slice(depth)).join('\n')
}

if (import.meta.main) {
  for (const [path, text] of generated()) {
    mkdirSync(dirname(join(ROOT, path)), { recursive: true })
    writeFileSync(join(ROOT, path), text)
  }
}
