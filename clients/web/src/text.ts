/** Characters that are not seen, and turn round or part what stands beside them: with them one name can look like another. */
const deceptive = /[\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff]/g;

/** Text with these characters shown. Joiners stay: some scripts, and emoji, need them. */
export const plain = (text: string): string => text.replace(deceptive, "\ufffd");
