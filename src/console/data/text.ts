/** Texts of problems that the console itself reports. */
export const text = {
  stillSignedIn: 'You are still signed in: the service did not end the session. Try again.',
  unreachable: 'The service did not respond. Check the connection.',
  status: (status: number) => `The service returned status ${status}.`,
  mayNotCall: (token: string, operation: string) => `"${token}" may not call ${operation}.`,
  invalidAddress: 'A value of the address is empty, "." or "..".',
}
