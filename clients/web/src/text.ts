/** Characters that are not seen, and turn round or part what stands beside them: with them one name can look like another. */
const deceptive = /[\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff]/g;

/** Text with these characters shown. Joiners stay: some scripts, and emoji, need them. */
export const plain = (text: string): string => text.replace(deceptive, "\ufffd");

/** Characters of which nothing is seen when they stand alone, those that `plain` put there included. */
const unseen = /[\p{Default_Ignorable_Code_Point}\p{White_Space}\p{Cc}\p{Cf}\p{Mn}\p{Me}\u2800\ufffd]/gu;

/** Whether anything of the text can be seen. */
export const isSeen = (text: string): boolean => text.replace(unseen, "") !== "";
