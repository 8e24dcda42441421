/** Files that the console is built from, and the index of the built ones. */
import { hash } from 'node:crypto'
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

export const SOURCE = join(import.meta.dirname, '../..')

/** Names of built files. */
export interface Index {
  readonly main: string
  /** Runs before the first paint. */
  readonly early: string
  readonly styles: readonly string[]
  /** Loaded together with `main`. */
  readonly preloads: readonly string[]
  /** Import map: names that modules of hosts import. */
  readonly imports: Readonly<Record<string, string>>
  /** By the path of the module's file below `src`. */
  readonly modules: Readonly<Record<string, string>>
}

/** Files of the modules of Tenantry, relative to `src`. */
export const consoleModules = (): string[] =>
  globSync(['tenants/console/index.tsx', 'satellites/*/console/index.tsx'], { cwd: SOURCE })
    .map((file) => file.replaceAll('\\', '/'))
    .toSorted()

/** Changes with every source of the console, and with its libraries. */
export function sourceHash(): string {
  const files = globSync(['console/**/*', 'tenants/console/**/*', 'satellites/*/console/**/*', 'http/console/*'], {
    cwd: SOURCE,
    withFileTypes: true,
  }).filter((entry) => entry.isFile() && !/\.(test|fixture)\.tsx?$/.test(entry.name))
  const paths = files.map(({ parentPath, name }) => join(parentPath, name)).toSorted()
  const contents = [...paths, join(SOURCE, '../package-lock.json')].map(
    (path) => `${path}\0${readFileSync(path, 'utf8')}`,
  )
  return hash('sha256', contents.join('\0')).slice(0, 20)
}
