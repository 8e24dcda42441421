/** The part of a tenancy for notifications of changed tenant tables. */
import type { Part } from '../../kernel/part-definition.ts'
import { TableChanges } from './schema-generation.ts'

export const tableChangesPart: Part<'tableChanges', TableChanges> = {
  name: 'tableChanges',
  service: ({ database, log }) => new TableChanges(database, log),
  start: (changes) => changes.start(),
  stop: (changes) => changes.stop(),
}
