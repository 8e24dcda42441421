/** Texts of generic screens. */
export const text = {
  empty: 'No entries',
  emptyFiltered: 'No entry matches the filters',
  entry: (number: number) => `Entry ${number}`,
  any: 'Any',
  yes: 'Yes',
  no: 'No',
  needed: (names: readonly string[]) => `Enter ${names.join(', ')} to read this.`,
  send: 'Send',
  open: 'Open',
  reveal: 'Reveal',
  delete: 'Delete',
  done: (summary: string) => `Done: ${summary}`,
  result: 'Result',
  close: 'Close',
  confirm: 'The service runs this operation. The console cannot undo it.',
  json: 'As JSON',
}
