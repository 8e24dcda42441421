/** Every part there are cases of: the tenants, and each satellite that is there. */
import type { Part } from './row.ts'
import { tenants } from './tenants.ts'
import { transfers } from './transfers.ts'

declare global {
  interface ImportMeta {
    /** Of Vite: the modules whose paths match, read from the file system. */
    glob<Module>(pattern: string, options: { eager: true }): Record<string, Module>
  }
}

const satellites = import.meta.glob<{ part: Part }>('../../src/satellites/*/coverage.fixture.ts', { eager: true })

export const parts: readonly Part[] = [tenants, transfers, ...Object.values(satellites).map(({ part }) => part)]

/** All of one kind, by name. */
export const merged = <Kind extends keyof Part>(kind: Kind): NonNullable<Part[Kind]> =>
  Object.fromEntries(parts.flatMap((part) => Object.entries(part[kind] ?? {}))) as NonNullable<Part[Kind]>
