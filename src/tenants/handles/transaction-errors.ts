/** Errors of transaction misuse, with the SQLSTATE of PostgreSQL. */
export const endedBefore = () =>
  Object.assign(new Error('a statement ended the transaction it ran in; only the handle can end it'), {
    code: '2D000',
  })

/** AND CHAIN has started another transaction without the scope of the first. */
export const chained = () =>
  Object.assign(new Error('a statement ended the transaction it ran in; AND CHAIN would start one without a scope'), {
    code: '2D000',
  })

export const transactionInProgress = () =>
  Object.assign(new Error('a transaction is already in progress on this connection'), { code: '25001' })
